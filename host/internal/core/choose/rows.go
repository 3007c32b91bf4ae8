package choose

import (
	"strings"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

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
