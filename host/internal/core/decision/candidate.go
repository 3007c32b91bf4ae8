package decision

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// StateNoStats is the state of a candidate unknown to its source (eviction.MeasurementState).
const StateNoStats = "no stats"

// A Candidate is a pod that could be evicted, with all inputs of the kubelet's order.
type Candidate struct {
	UID      string            `json:"uid"`
	Pod      string            `json:"pod"`
	Priority int32             `json:"priority,omitempty"`
	QoS      eviction.QoSClass `json:"qos"`
	Owner    string            `json:"owner,omitempty"`
	// Labels and Annotations are those that the ranker asks for.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// Started is in seconds of Unix time, 0 if unknown.
	Started int64 `json:"started,omitempty"`
	// MemoryRequest and StorageRequest are in bytes.
	MemoryRequest  int64 `json:"memoryRequest,omitempty"`
	StorageRequest int64 `json:"storageRequest,omitempty"`
	// Usage is the pod's measured use of the signal. If it is unknown, State is StateNoStats or
	// StateUnknown.
	State string `json:"state,omitempty"`
	Usage int64  `json:"usage,omitempty"`
	// AtMost is the most that the pod can use while Usage is a lower bound, 0 if Usage is exact.
	AtMost int64 `json:"atMost,omitempty"`
	// Parts are those of Usage of a disk, the largest first, of the first candidate only.
	Parts []Part `json:"parts,omitempty"`
	// Err is why Usage is unknown.
	Err string `json:"error,omitempty"`
	// Reason is the ranker's reason.
	Reason string `json:"reason,omitempty"`
}

// Ranked returns c as the input of rankers for s.
func (c *Candidate) Ranked(s eviction.Signal) eviction.Candidate {
	out := eviction.Candidate{
		Pod: eviction.Pod{
			UID: c.UID, Name: c.Pod, Priority: c.Priority, QoSClass: c.QoS,
			MemoryRequestBytes: c.MemoryRequest, EphemeralStorageRequestBytes: c.StorageRequest,
		},
		Measurement: eviction.Measurement{UID: c.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: s, Value: c.Usage}}},
	}
	switch c.State {
	case StateNoStats:
		out.Measurement.State, out.Measurement.Usage = eviction.NoStats, nil
	case StateUnknown:
		out.Measurement.State, out.Measurement.Usage = eviction.MeasurementUnknown, nil
	}
	return out
}

// PartsOf returns what a pod has in its volumes, logs and writable layers of a disk's signal, the
// largest first; none for another signal.
func PartsOf(pod *eviction.Pod, m *eviction.Measurement, s eviction.Signal) (parts []Part) {
	b, _ := eviction.Builtin(s)
	if b.Condition != eviction.DiskPressure {
		return nil
	}
	add := func(name string, bytes, inodes eviction.Figure) {
		if b.Unit == eviction.UnitInodes {
			bytes = inodes
		}
		at := slices.IndexFunc(parts, func(p Part) bool { return p.Name == name })
		switch {
		case !bytes.OK || bytes.Value <= 0:
		case at < 0:
			parts = append(parts, Part{name, bytes.Value})
		default:
			parts[at].Used += bytes.Value
		}
	}
	for _, c := range m.Containers {
		add("logs", c.LogsUsedBytes, c.LogsInodesUsed)
		add("writable layers", c.RootfsUsedBytes, c.RootfsInodesUsed)
	}
	for _, v := range m.Volumes {
		name := "volume " + v.Name
		if at := slices.IndexFunc(pod.Volumes, func(of eviction.Volume) bool { return of.Name == v.Name }); at >= 0 {
			name = cmp.Or(pod.Volumes[at].Kind, "volume") + " " + v.Name
		}
		add(name, v.UsedBytes, v.InodesUsed)
	}
	slices.SortStableFunc(parts, func(a, b Part) int { return cmp.Compare(b.Used, a.Used) })
	return parts[:min(len(parts), maxParts)]
}

// maxParts bounds the parts in a record.
const maxParts = 8
