package world

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// Evictd decides by package policy like evictd's loop, with a pass in each tick.
type Evictd struct {
	thresholds []policy.Threshold
	state      policy.State
	ledger     policy.Ledger
	short      bool
	lower      float64
}

// NewEvictd returns the evictd of a node, whose memory.available is lower than the kubelet's by so many MiB.
func NewEvictd(lower float64) *Evictd {
	value := policy.Value{Quantity: *resource.NewQuantity(Threshold*mib, resource.BinarySI)}
	return &Evictd{lower: lower, thresholds: []policy.Threshold{{Signal: eviction.MemoryAvailable, Value: value}}}
}

func moment(d time.Duration) policy.Moment { return policy.Moment{Time: start.Add(d)} }

func bytes(mibs float64) int64 { return int64(mibs * mib) }

// Look implements Manager.
func (e *Evictd) Look(n *Node) error {
	now, t := moment(n.Now), e.thresholds[0]
	o := eviction.Observation{Signal: t.Signal, State: eviction.Observed, Available: bytes(max(0, n.Available()-e.lower)), Capacity: capacity * mib, Time: now.Time}
	observations := map[eviction.Signal]eviction.Observation{t.Signal: o}
	if n.Restarts() {
		e.restart(n, observations)
	}
	var a policy.Assessment
	e.state, a = policy.Assess(e.state, policy.Input{Now: now.Time, Thresholds: e.thresholds, Observations: observations, TransitionPeriod: 5 * time.Minute})
	e.ledger, e.short = e.ledger.Observed(observations, a.Observed, now), len(a.Conditions) > 0
	for _, p := range n.Pods {
		if n.Now%(10*time.Second) == 0 && p.Exceeds(n.Now) { // in full passes
			e.promise(n, p, policy.LocalStorage, eviction.Figure{}, observations)
			e.measure(n, p.UID, observations)
			n.Evict(p.UID, min(max(n.Delay, 0), time.Second))
		}
	}
	if len(a.Actionable) == 0 {
		return nil
	}
	v := e.ledger.Judge(t, o, now)
	if len(v.Measure) > 0 {
		for _, uid := range v.Measure {
			e.measure(n, uid, observations)
		}
		v = e.ledger.Judge(t, o, now)
	}
	var all int64
	var candidates []eviction.Candidate
	for _, p := range n.Pods {
		if use := bytes(p.Uses(n.Now)); p.Ending < 0 {
			m := eviction.Measurement{UID: p.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(use), Usage: []eviction.SignalUsage{{Signal: t.Signal, Value: use}}}
			candidates, all = append(candidates, eviction.Candidate{Pod: eviction.Pod{UID: p.UID, MemoryRequestBytes: bytes(p.request)}, Measurement: m}), all+use
		}
	}
	if !v.Go || len(candidates) == 0 {
		return nil
	}
	uid := rank.Kubelet(candidates, t.Signal)[0].UID
	pod := n.Pods[slices.IndexFunc(n.Pods, func(p *Pod) bool { return p.UID == uid })]
	e.ledger = e.ledger.Chosen(t, o, policy.Candidate{UID: uid, Owner: pod.Owner(), Controlled: pod.kind != bare, All: eviction.Some(all)}, now)
	if !e.ledger.Judge(t, o, now).Go {
		return nil
	}
	e.promise(n, pod, t, eviction.Some(bytes(pod.Uses(n.Now))), observations)
	// The node's taint is written first, for which the pod's status waits a second at most.
	n.Evict(uid, min(max(n.Delay, 0), time.Second))
	return nil
}

// measure reads the memory of a victim, which its cgroup has until it is cleaned up.
func (e *Evictd) measure(n *Node, uid string, observations map[eviction.Signal]eviction.Observation) {
	use, t := n.cleaning[uid].holds, e.thresholds[0]
	for _, p := range n.Pods {
		if p.UID == uid {
			use = p.Uses(n.Now)
		}
	}
	e.ledger = e.ledger.Measured(uid, t, policy.Relieved(t, nil, eviction.LayoutShared, eviction.Some(bytes(use))), observations, moment(n.Now))
}

func (e *Evictd) promise(n *Node, pod *Pod, t policy.Threshold, use eviction.Figure, observations map[eviction.Signal]eviction.Observation) {
	var siblings []string
	for _, p := range n.Pods {
		if p.Owner() == pod.Owner() {
			siblings = append(siblings, p.UID)
		}
	}
	e.ledger = e.ledger.Promised(policy.Promise{
		UID: pod.UID, Pod: pod.UID, Owner: pod.Owner(), Siblings: siblings, Grace: time.Second, Frees: policy.Relieved(t, nil, eviction.LayoutShared, use),
	}, t, observations, moment(n.Now))
}

// restart has a new evictd take over from the journal.
func (e *Evictd) restart(n *Node, observations map[eviction.Signal]eviction.Observation) {
	e.state, e.ledger = policy.Restore(e.state.ConditionsLastSeen()), policy.Restored(e.ledger.Owed(), func() policy.Moment { return moment(n.Now) })
	for _, p := range n.Pods {
		if p.Ending >= 0 {
			t := e.thresholds[0]
			if p.exceeds > 0 && p.evicted >= p.born+p.exceeds {
				t = policy.LocalStorage
			}
			e.promise(n, p, t, eviction.Figure{}, observations)
			e.measure(n, p.UID, observations)
		}
	}
	for uid := range n.cleaning {
		e.promise(n, &Pod{workload: &workload{kind: bare}, UID: uid}, e.thresholds[0], eviction.Figure{}, observations)
		e.measure(n, uid, observations)
	}
}

// Taint implements Manager.
func (e *Evictd) Taint() string {
	if e.short {
		return evictdTaint
	}
	return ""
}

// CleanedUp implements Manager.
func (e *Evictd) CleanedUp(n *Node, uid string, gone bool) {
	if gone {
		e.ledger = e.ledger.Ended(uid, moment(n.Now))
	} else {
		e.ledger = e.ledger.Dropped(uid, moment(n.Now))
	}
}
