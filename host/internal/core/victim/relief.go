package victim

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Relief tracks what victims of node pressure are expected to free, and why no other pod is evicted until they have.
type Relief struct {
	ledger  policy.Ledger
	waiting map[eviction.Signal]policy.Wait
	// paced holds, by signal and reason, when a wait due to the kubelet's pace was last reported.
	paced map[string]time.Time
	saved []policy.Owed
	of    *Set
}

// Expect records what v, a victim of t, is expected to free, given what it frees of each signal of t's resource. t is
// policy.LocalStorage for a pod over its own limit. known are the pods of the node.
func (r *Relief) Expect(v *Victim, t policy.Threshold, frees map[eviction.Signal]eviction.Figure, known []pods.Pod, observed map[eviction.Signal]eviction.Observation) {
	if v.DryRun {
		return
	}
	owner, _ := v.Pod.Family()
	r.ledger = r.ledger.Promised(policy.Promise{
		UID: v.UID, Pod: v.Key(), Owner: owner, Siblings: v.Pod.Siblings(known), Grace: time.Duration(v.GraceSeconds) * time.Second, Frees: frees,
	}, t, observed, r.of.Moment())
	r.settled()
}

// Chosen records the first pod of a ranking for t, and reports whether it may be evicted. all is what all candidates use.
func (r *Relief) Chosen(t policy.Threshold, o eviction.Observation, first pods.Pod, all eviction.Figure) bool {
	owner, controlled := first.Family()
	r.ledger = r.ledger.Chosen(t, o, policy.Candidate{UID: first.Row.UID, Owner: owner, Controlled: controlled, All: all}, r.of.Moment())
	return r.Judge(t, o).Go
}

// settled logs the victims of which no more relief is expected.
func (r *Relief) settled() {
	for _, s := range r.ledger.Settled() {
		promised := int64(0)
		if s.Promised.OK {
			promised = s.Promised.Value
		}
		r.of.Metrics.Relieved(s.Signal, promised, s.Released)
		r.of.settle(s)
		r.of.Log.Info("relief of a victim", "pod", s.Pod, "uid", s.UID, "signal", s.Signal, "promised", promised, "freed", s.Released)
	}
}

// keep saves what ended victims have yet to free, for the next host, if it has changed.
func (r *Relief) keep() {
	if owed := r.ledger.Owed(); !reflect.DeepEqual(owed, r.saved) {
		r.saved = owed
		if err := r.of.SaveOwed(owed); err != nil {
			r.of.Log.Error("awaited relief is not in the journal", "error", err)
		}
	}
}

// Measured records what a terminating victim holds now of each signal of t's resource.
func (r *Relief) Measured(uid string, t policy.Threshold, holds map[eviction.Signal]eviction.Figure, observed map[eviction.Signal]eviction.Observation, at policy.Moment) {
	r.ledger = r.ledger.Measured(uid, t, holds, observed, at)
}

// Observed records the observations of a pass and thresholds that are met, and determines what those in must wait for.
func (r *Relief) Observed(observed map[eviction.Signal]eviction.Observation, met []policy.Observed, must []policy.Threshold, last func(eviction.Signal) eviction.Observation) {
	before := r.waiting
	r.waiting = map[eviction.Signal]policy.Wait{}
	r.ledger = r.ledger.Observed(observed, met, r.of.Moment())
	r.settled()
	r.keep()
	for _, t := range must {
		if o := last(t.Signal); o.State == eviction.Observed {
			r.Judge(t, o)
		}
	}
	for s, w := range r.waiting {
		if before[s].For != w.For {
			r.of.Log.Debug("next victim waits", "signal", s, "for", w.For, "victims", w.Victims, "until", w.Until)
		}
	}
}

// Judge asks the ledger whether another pod may be evicted for t, and keeps what t waits for.
func (r *Relief) Judge(t policy.Threshold, o eviction.Observation) policy.Verdict {
	v := r.ledger.Judge(t, o, r.of.Moment())
	if v.Go {
		delete(r.waiting, t.Signal)
	} else {
		r.waiting[t.Signal] = v.Wait
		r.tellPace(v.Wait)
	}
	return v
}

// tellPace sends an event about a wait due to the kubelet's pace, again while it lasts.
func (r *Relief) tellPace(w policy.Wait) {
	const again = 10 * time.Minute
	key, now := string(w.Signal)+" "+w.Reason, time.Now()
	if w.For != policy.WaitForPace || now.Sub(r.paced[key]) < again {
		return
	}
	r.paced[key] = now
	holder := ""
	if r.of.Holder != nil && w.Reason == policy.NoHolder {
		holder = r.of.Holder(w.Signal)
	}
	r.of.Log.Warn("next eviction waits for the kubelet's pace", "signal", w.Signal, "reason", w.Reason, "last", w.Victims, "until", w.Until, "holder", holder)
	message := fmt.Sprintf("%s: pods are evicted as slowly as by a kubelet: %s", w.Signal, w.Reason)
	if holder != "" {
		message += "; outside of all pods the most is held by " + holder
	}
	if r.of.NodeEvent != nil {
		r.of.NodeEvent("Warning", EventReasonPace, message)
	}
}

// Waiting returns the waits of thresholds, sorted by signal.
func (r *Relief) Waiting() []policy.Wait {
	return slices.SortedFunc(maps.Values(r.waiting), func(a, b policy.Wait) int { return cmp.Compare(a.Signal, b.Signal) })
}

// LookAt returns when to check again for awaited relief, zero if that awaits the end of a victim, which is reported.
func (r *Relief) LookAt() (times []time.Time) {
	for _, w := range r.waiting {
		times = append(times, w.LookAt)
	}
	return append(times, r.ledger.LookAt(r.of.Moment()))
}

// EventReasonPace is the reason of the event about evictions at the kubelet's pace.
const EventReasonPace = "EvictionsSlowedDown"
