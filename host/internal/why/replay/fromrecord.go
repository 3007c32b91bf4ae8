package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/shared/eviction"
)

// criticalPriority is the priority given to pods that may not be evicted.
const criticalPriority = 2_000_000_000

// FromRecord returns the scenario of a recorded decision: its thresholds, the candidates with their
// requests, and the figures it was made from, in the pass that first saw the threshold met and in
// the one that acted. Summaries have only the kubelet's signals, so decisions for others cannot be
// replayed. A ranking, which needs no met threshold, is replayed with a hard threshold just above
// what is available.
func FromRecord(r *decision.Decision) (*Trace, error) {
	if r.By != "" {
		return nil, fmt.Errorf("record %s: is of an eviction by %s, want a decision by evictd", r.ID, r.By)
	}
	t := r.Acted()
	if t == nil || len(r.Candidates) == 0 {
		return nil, fmt.Errorf("record %s: is of no choice between pods, want one of the kind %q", r.ID, decision.KindEviction)
	}
	if _, builtin := eviction.Builtin(t.Signal); !builtin {
		return nil, fmt.Errorf("record %s: was made for %s, which no summary has", r.ID, t.Signal)
	}
	from := r
	if r.Kind == decision.KindRanking {
		var err error
		if r, err = asIfMet(r, t.Signal); err != nil {
			return nil, fmt.Errorf("record %s: %w", from.ID, err)
		}
		t = &r.Thresholds[0]
	}
	s := &Scenario{
		SchemaVersion: SchemaVersion, Name: r.ID, Description: "recorded: " + went(r), NodeName: r.Node, FilesystemLayout: r.Layout,
		Config: configOf(r), StartTime: metav1.NewTime(r.Now), Record: from,
	}
	if s.FilesystemLayout == "" {
		s.FilesystemLayout = LayoutShared
	}
	for i := range r.Candidates {
		s.Pods = append(s.Pods, podOf(&r.Candidates[i]))
	}
	for _, p := range r.Protected {
		if p.Rule == "critical or static" {
			s.Pods = append(s.Pods, podOf(&decision.Candidate{UID: p.UID, Pod: p.Pod, Priority: criticalPriority}))
		}
	}
	observed := map[eviction.Signal]decision.Observation{}
	for _, o := range r.Observations {
		observed[o.Signal] = o
	}
	steps, err := stepsOf(r, t, observed)
	if err != nil {
		return nil, fmt.Errorf("record %s: %w", r.ID, err)
	}
	s.Steps = steps
	for i := range steps {
		s.StartTime.Time = s.StartTime.Add(-steps[i].Advance())
	}
	return &Trace{Scenario: s}, nil
}

// asIfMet returns a ranking with a single threshold, which is met.
func asIfMet(r *decision.Decision, s eviction.Signal) (*decision.Decision, error) {
	at := slices.IndexFunc(r.Observations, func(o decision.Observation) bool { return o.Signal == s && o.State == decision.StateObserved })
	b, _ := eviction.Builtin(s)
	switch {
	case at < 0:
		return nil, fmt.Errorf("has no figure of %s, without which no threshold is met", s)
	case b.Filesystem == eviction.ContainerFs, s == eviction.AllocatableMemoryAvailable:
		return nil, fmt.Errorf("is for %s, whose thresholds follow from another signal's: want a ranking for that one", s)
	}
	met := *r
	above := min(r.Observations[at].Available, math.MaxInt64-1) + 1
	met.Thresholds = []decision.Threshold{{Signal: s, Value: strconv.FormatInt(above, 10), Acted: true}}
	return &met, nil
}

// stepsOf returns the passes that led to a decision: one before it, in which the filesystems are
// detected; those in which the threshold was already met; and the one that acted. A threshold
// prolonged by its minimum reclaim was met for its grace period without it.
func stepsOf(r *decision.Decision, t *decision.Threshold, observed map[eviction.Signal]decision.Observation) ([]Step, error) {
	const calm = 10 // seconds
	steps := []Step{{Note: "before it", AdvanceSeconds: calm, Summary: summaryOf(r, t.Signal, nil)}}
	acted := Step{Note: "it is acted on", AdvanceSeconds: calm, Summary: summaryOf(r, t.Signal, withoutStale(r, t, observed))}
	if t.Since == nil || !t.Since.Before(r.Now) {
		return append(steps, acted), nil
	}
	p, err := t.Policy()
	if err != nil {
		return nil, err
	}
	before := observed[t.Signal]
	amount := p.Amount(before.Capacity)
	prolonged := amount.CmpInt64(before.Available) <= 0
	before.Available = min(before.Available, amount.Value()-1)
	first := summaryOf(r, t.Signal, map[eviction.Signal]decision.Observation{t.Signal: before})
	took := r.Now.Sub(*t.Since).Seconds()
	steps = append(steps, Step{Note: "it is first seen", AdvanceSeconds: calm, Summary: first})
	if prolonged {
		const moment = 0.001
		took -= moment
		steps = append(steps, Step{Note: "it is met for its grace period", AdvanceSeconds: took, Summary: first})
		took = moment
	}
	acted.AdvanceSeconds = took
	return append(steps, acted), nil
}

// withoutStale returns observed without the signals of thresholds that were met but not acted on
// because their figures were no newer than those of the previous pass.
func withoutStale(r *decision.Decision, acted *decision.Threshold, observed map[eviction.Signal]decision.Observation) map[eviction.Signal]decision.Observation {
	fresh := maps.Clone(observed)
	for i := range r.Thresholds {
		if t := &r.Thresholds[i]; t.GraceOver && !t.Actionable && t.Signal != acted.Signal {
			delete(fresh, t.Signal)
		}
	}
	return fresh
}

// follows reports whether the hard threshold of the pods' memory is derived from that of the
// node's, because node allocatable is enforced on pods.
func follows(r *decision.Decision, t *decision.Threshold) bool {
	return t.Signal == eviction.AllocatableMemoryAvailable && t.Hard() && slices.ContainsFunc(r.Thresholds, func(u decision.Threshold) bool {
		return u.Signal == eviction.MemoryAvailable && u.Hard() && u.Value == t.Value && u.MinReclaim == t.MinReclaim
	})
}

// went describes the eviction in a record.
func went(r *decision.Decision) string {
	how := " went for "
	if r.Kind == decision.KindRanking {
		how = " would have gone first for "
	}
	return firstToGo(r) + how + r.Head().Signal
}

// firstToGo returns the evicted pod, or the first of a ranking.
func firstToGo(r *decision.Decision) string {
	switch {
	case r.Victim != nil:
		return r.Victim.Pod
	case r.Kind == decision.KindRanking && len(r.Order) > 0:
		return r.Candidates[r.Order[0]].Pod
	default:
		return "no pod"
	}
}

func configOf(r *decision.Decision) Config {
	c := Config{
		EvictionHard: map[string]string{}, EvictionSoft: map[string]string{}, EvictionSoftGracePeriod: map[string]string{}, EvictionMinimumReclaim: map[string]string{},
		EvictionPressureTransitionPeriod: metav1.Duration{Duration: 5 * time.Minute},
	}
	if v := r.Victim; v != nil {
		c.EvictionMaxPodGracePeriod = int32(min(max(v.GraceSeconds, 0), math.MaxInt32))
	}
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		b, builtin := eviction.Builtin(t.Signal)
		switch {
		case !builtin:
			continue
		case follows(r, t):
			c.EnforceNodeAllocatable = []string{"pods"}
			continue
		case b.Filesystem == eviction.ContainerFs: // follow from those of the other filesystems
			continue
		case !t.Hard():
			c.EvictionSoft[string(t.Signal)], c.EvictionSoftGracePeriod[string(t.Signal)] = configured(t.Value), t.GracePeriod
		default:
			c.EvictionHard[string(t.Signal)] = configured(t.Value)
		}
		if t.MinReclaim != "" {
			c.EvictionMinimumReclaim[string(t.Signal)] = t.MinReclaim
		}
	}
	return c
}

// configured returns a value as written in a configuration, where 100% means none.
func configured(value string) string {
	if value == "100%" {
		return "100.0%"
	}
	return value
}

func podOf(c *decision.Candidate) *v1.Pod {
	namespace, name, _ := strings.Cut(c.Pod, "/")
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(c.UID), Labels: c.Labels, Annotations: c.Annotations}, Status: v1.PodStatus{QOSClass: v1.PodQOSClass(c.QoS)}}
	p.Spec.Priority = &c.Priority
	if c.Started > 0 {
		p.Status.StartTime = new(metav1.Unix(c.Started, 0))
	}
	requests := v1.ResourceList{}
	for what, n := range map[v1.ResourceName]int64{v1.ResourceMemory: c.MemoryRequest, v1.ResourceEphemeralStorage: c.StorageRequest} {
		if n > 0 {
			requests[what] = *resource.NewQuantity(n, resource.BinarySI)
		}
	}
	p.Spec.Containers = []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{Requests: requests}}}
	return p
}

// object is a JSON object of a summary, with the kubelet's keys.
type object = map[string]any

// summaryOf returns a summary with the observations, and the candidates' usage of a signal.
func summaryOf(r *decision.Decision, signal eviction.Signal, observed map[eviction.Signal]decision.Observation) json.RawMessage {
	node, runtime := object{"nodeName": r.Node}, object{}
	filesystem := func(bytes, inodes eviction.Signal) object {
		fs := object{}
		if o, ok := observed[bytes]; ok && o.State == decision.StateObserved {
			fs["availableBytes"], fs["capacityBytes"] = o.Available, o.Capacity
		}
		if o, ok := observed[inodes]; ok && o.State == decision.StateObserved {
			fs["inodesFree"], fs["inodes"] = o.Available, o.Capacity
		}
		return fs
	}
	memory := func(s eviction.Signal) (object, bool) {
		o := observed[s]
		return object{"availableBytes": o.Available, "workingSetBytes": max(0, o.Capacity-o.Available)}, o.State == decision.StateObserved
	}
	if m, ok := memory(eviction.MemoryAvailable); ok {
		node["memory"] = m
	}
	if m, ok := memory(eviction.AllocatableMemoryAvailable); ok {
		node["systemContainers"] = []object{{"name": "pods", "memory": m}}
	}
	if fs := filesystem(eviction.NodeFsAvailable, eviction.NodeFsInodesFree); len(fs) > 0 {
		node["fs"] = fs
	}
	if fs := filesystem(eviction.ImageFsAvailable, eviction.ImageFsInodesFree); len(fs) > 0 {
		runtime["imageFs"] = fs
	}
	if fs := filesystem(eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree); len(fs) > 0 {
		runtime["containerFs"] = fs
	}
	if o := observed[eviction.PIDAvailable]; o.State == decision.StateObserved {
		node["rlimit"] = object{"maxpid": o.Capacity, "curproc": max(0, o.Capacity-o.Available)}
	}
	if len(runtime) > 0 {
		node["runtime"] = runtime
	}
	var pods []object
	for i := range r.Candidates {
		if c := &r.Candidates[i]; c.State == "" {
			pods = append(pods, podStats(c, signal))
		}
	}
	text, _ := json.Marshal(object{"node": node, "pods": pods}) // only maps, texts and numbers
	return text
}

// podStats returns a pod's usage of a signal, where the kubelet's order finds it in any layout.
func podStats(c *decision.Candidate, signal eviction.Signal) object {
	namespace, name, _ := strings.Cut(c.Pod, "/")
	main, pod := object{"name": "main"}, object{"podRef": object{"name": name, "namespace": namespace, "uid": c.UID}}
	b, _ := eviction.Builtin(signal)
	switch b.Condition {
	case eviction.MemoryPressure:
		main["memory"], pod["memory"] = object{"workingSetBytes": c.Usage}, object{"workingSetBytes": c.Usage}
	case eviction.PIDPressure:
		pod["process_stats"] = object{"process_count": c.Usage}
	default:
		used := object{"usedBytes": c.Usage}
		if b.Unit == eviction.UnitInodes {
			used = object{"inodesUsed": c.Usage}
		}
		where := "rootfs"
		if b.Filesystem == eviction.NodeFs {
			where = "logs"
		}
		main[where] = used
	}
	pod["containers"] = []object{main}
	return pod
}

// OtherVictim says which pod the replay of a record evicts, and whether it differs from the record.
func OtherVictim(t *Trace, r *Replay) (text string, other bool) {
	was, is := firstToGo(t.Scenario.Record), "no pod"
	if r.Decisions.ConfigError != "" {
		return "not replayed, the configuration is refused: " + r.Decisions.ConfigError, true
	}
	if n := len(r.Passes); n > 0 && len(r.Passes[n-1].Evicted) > 0 {
		is = r.Passes[n-1].Evicted[0].Key()
	}
	if is == was {
		return is + " goes, as recorded", false
	}
	return is + " goes instead of " + was, true
}
