package choose

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// rankingShown bounds the pods of a ranking that are logged.
const rankingShown = 10

// A Choice is the eviction order of pods, with the ranker and its input.
type Choice struct {
	Snapshot pods.Snapshot
	// Err is why the pods could not be listed.
	Err        error
	Candidates []pods.Pod
	Order      []eviction.Ranked
	Ranker     string
	// RankerVersion is the version that the ranker reports. RankerCustom: its order is not the
	// kubelet's.
	RankerVersion string
	RankerCustom  bool
	Measured      map[string]eviction.Measurement
	// Took is the duration of the measurement.
	Took time.Duration
	// Unnamed is why no pod may go for a signal of RankedPods, empty if one may.
	Unnamed string
	// TooSoon: no pod has a figure, and the plugin that measures them is still starting.
	TooSoon bool
	// labels and annotations are the keys that rankers see of pods.
	labels, annotations []string
	// detailed is the first pod's measurement with containers, for the message.
	detailed eviction.Measurement
}

// spared returns the reason why a pod may not be evicted at all, empty if it may.
func spared(p *pods.Pod, ending func(uid string) bool) string {
	switch {
	case !p.HasManifest:
		return "without a manifest"
	case !policy.Evictable(p.API):
		return "critical or static"
	case ending(p.Row.UID):
		return "being evicted"
	default:
		return ""
	}
}

// A Spared is a pod that may not be evicted, and why.
type Spared struct {
	Pod *pods.Pod
	Why string
}

// Spared returns the pods that were not candidates.
func (c *Choice) Spared() (out []Spared) {
	is := make(map[string]bool, len(c.Candidates))
	for i := range c.Candidates {
		is[c.Candidates[i].Row.UID] = true
	}
	for i := range c.Snapshot.Pods {
		if p := &c.Snapshot.Pods[i]; !is[p.Row.UID] {
			out = append(out, Spared{p, spared(p, func(string) bool { return true })})
		}
	}
	return out
}

// Candidates returns the pods of a snapshot that may be evicted. The caller must not modify them.
func Candidates(s pods.Snapshot) []pods.Pod {
	return candidates(s, func(string) bool { return false })
}

// candidates returns the pods that may be evicted at all. Plugins see no others. The caller must
// not modify the slice: it is the snapshot's own if all pods qualify.
func candidates(s pods.Snapshot, ending func(uid string) bool) []pods.Pod {
	isSpared := func(p pods.Pod) bool { return spared(&p, ending) != "" }
	if !slices.ContainsFunc(s.Pods, isSpared) {
		return s.Pods
	}
	return slices.DeleteFunc(slices.Clone(s.Pods), isSpared)
}

// Drop removes pods that must not be chosen any more: they became victims, or have ended. They
// count neither as spared by the ranker nor as candidates.
func (c *Choice) Drop(gone func(uid string) bool) {
	c.Order = slices.DeleteFunc(c.Order, func(r eviction.Ranked) bool { return gone(r.UID) })
	c.Candidates = slices.DeleteFunc(slices.Clone(c.Candidates), func(p pods.Pod) bool { return gone(p.Row.UID) })
}

// First returns the pod to evict and its measurement. The order must not be empty.
func (c *Choice) First() (pods.Pod, eviction.Measurement) {
	uid := c.Order[0].UID
	if c.detailed.UID == uid {
		return c.pod(uid), c.detailed
	}
	return c.pod(uid), c.Measured[uid]
}

func (c *Choice) pod(uid string) pods.Pod {
	for i := range c.Candidates {
		if c.Candidates[i].Row.UID == uid {
			return c.Candidates[i]
		}
	}
	return pods.Pod{}
}

// Shown returns the head of the order for the log.
func (c *Choice) Shown() []string {
	out := make([]string, 0, rankingShown)
	for _, r := range c.Order[:min(len(c.Order), rankingShown)] {
		text := c.pod(r.UID).String()
		if r.Reason != "" {
			text = fmt.Sprintf("%s (%s)", text, r.Reason)
		}
		out = append(out, text)
	}
	return out
}

// WhyNobody returns why none of the active pods can be evicted. ending reports whether a pod is a
// victim already.
func (c *Choice) WhyNobody(ending func(uid string) bool) string {
	if c.Unnamed != "" && len(c.Candidates) > 0 {
		return c.Unnamed
	}
	counts := map[string]int{}
	for i := range c.Snapshot.Pods {
		counts[cmp.Or(spared(&c.Snapshot.Pods[i], ending), "left out by the ranker")]++
	}
	var reasons []string
	for _, reason := range []string{"without a manifest", "critical or static", "being evicted", "left out by the ranker"} {
		if n := counts[reason]; n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d %s", n, reason))
		}
	}
	return cmp.Or(strings.Join(reasons, ", "), "no pod is active")
}

// Total returns the candidates' total use of s, missing if any of them is unknown, a lower bound or
// unreliable.
func (c *Choice) Total(pin *registry.Pin, layout eviction.Layout, s eviction.Signal) eviction.Figure {
	if !reliable(pin, layout, s) {
		return eviction.Figure{}
	}
	total := eviction.Some(0)
	for i := range c.Candidates {
		m := c.Measured[c.Candidates[i].Row.UID]
		if m.State != eviction.Measured || slices.ContainsFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.AtMost > 0 }) {
			return eviction.Figure{}
		}
		total.Value += m.UsageFor(s)
	}
	return total
}

// Used returns what each measured candidate uses of s, as the kubelet's order compares it.
func (c *Choice) Used(s eviction.Signal) iter.Seq2[*eviction.Pod, int64] {
	return func(yield func(*eviction.Pod, int64) bool) {
		for i := range c.Candidates {
			row := eviction.Candidate{Pod: c.Candidates[i].Row, Measurement: c.Measured[c.Candidates[i].Row.UID]}
			if row.Measurement.State == eviction.Measured && !yield(&row.Pod, rank.Used(&row, s)) {
				return
			}
		}
	}
}

// Inputs returns the inputs in stale for the records.
func Inputs(stale []pods.Stale) (out []decision.Input) {
	for _, s := range stale {
		out = append(out, decision.Input{Name: s.Input, AgeSeconds: s.Age.Seconds(), Reason: printable.ClipText(strings.TrimPrefix(s.Err.Error(), s.Input+": "))})
	}
	return out
}

// Enter writes the candidates for a signal, the ranker's order and the protected pods into d.
func (c *Choice) Enter(d *decision.Decision, signal eviction.Signal) {
	if c.Ranker != "" {
		d.Ranker = &decision.Ranker{Name: c.Ranker, Version: c.RankerVersion, Custom: c.RankerCustom}
	}
	places := make(map[string]int, len(c.Candidates))
	for i := range c.Candidates {
		pod := &c.Candidates[i]
		places[pod.Row.UID] = i
		row := decision.Candidate{
			UID: pod.Row.UID, Pod: pod.String(), Priority: pod.Row.Priority, QoS: pod.Row.QoSClass, Owner: pod.Row.OwnerKind,
			Labels: wanted(pod.Row.Labels, c.labels), Annotations: wanted(pod.Row.Annotations, c.annotations),
			MemoryRequest: pod.Row.MemoryRequestBytes, StorageRequest: pod.Row.EphemeralStorageRequestBytes,
		}
		if !pod.Row.StartTime.IsZero() {
			row.Started = pod.Row.StartTime.Unix()
		}
		m := c.Measured[pod.Row.UID]
		switch m.State {
		case eviction.Measured:
			row.Usage = rank.Used(&eviction.Candidate{Pod: pod.Row, Measurement: m}, signal)
			for _, u := range m.Usage {
				row.AtMost = max(row.AtMost, u.AtMost)
			}
		case eviction.NoStats:
			row.State = decision.StateNoStats
		case eviction.MeasurementUnknown:
			row.State, row.Err = decision.StateUnknown, m.Err
		}
		if c.detailed.UID == row.UID {
			row.Parts = decision.PartsOf(&pod.Row, &c.detailed, signal)
		}
		d.Candidates = append(d.Candidates, row)
	}
	for _, ranked := range c.Order {
		if at, ok := places[ranked.UID]; ok {
			d.Order = append(d.Order, at)
			if c.RankerCustom { // the kubelet's reasons follow from the figures
				d.Candidates[at].Reason = ranked.Reason
			}
		}
	}
	for _, s := range c.Spared() {
		d.Protected = append(d.Protected, decision.Protected{UID: s.Pod.Row.UID, Pod: s.Pod.String(), Rule: s.Why})
	}
}

// maxValue bounds a label or annotation value in a record, in bytes. Longer ones are omitted.
const maxValue = 1 << 10

func wanted(all map[string]string, keys []string) (out map[string]string) {
	for _, key := range keys {
		if value, ok := all[key]; ok && len(value) <= maxValue {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
