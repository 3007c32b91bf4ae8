package observe

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// The states of a signal.
const (
	StateObserved = "observed"
	StateAbsent   = "absent"
	StateUnknown  = "unknown"
)

// SignalStatus is the last figure of a signal, in its base unit.
type SignalStatus struct {
	Signal     eviction.Signal  `json:"signal"`
	State      string           `json:"state"`
	Available  int64            `json:"available"`
	Capacity   int64            `json:"capacity"`
	Time       time.Time        `json:"time"`
	Components map[string]int64 `json:"components,omitempty"`
	Err        string           `json:"error,omitempty"`
	// UnknownSince is the time since when whoever should observe the signal cannot.
	UnknownSince time.Time `json:"unknownSince,omitzero"`
	// ObservedBy is the plugin that has the figure, or "evictd" while the host reads
	// it by itself.
	ObservedBy string `json:"observedBy,omitempty"`
	// Contradiction: a custom observer and the one that is asked beside it have said
	// different things for a while. The worse figure counts.
	Contradiction *Contradiction `json:"contradiction,omitempty"`
}

// Statuses shows observations, by name of the signal.
func Statuses(observed map[eviction.Signal]eviction.Observation) []SignalStatus {
	out := make([]SignalStatus, 0, len(observed))
	for _, s := range slices.Sorted(maps.Keys(observed)) {
		o := observed[s]
		status := SignalStatus{Signal: s, State: stateName(o.State), Available: o.Available, Capacity: o.Capacity, Time: o.Time, Err: o.Err}
		for _, c := range o.Components {
			if status.Components == nil {
				status.Components = map[string]int64{}
			}
			status.Components[c.Name] = c.Value
		}
		out = append(out, status)
	}
	return out
}

func stateName(s eviction.ObservationState) string {
	switch s {
	case eviction.Observed:
		return StateObserved
	case eviction.Absent:
		return StateAbsent
	default:
		return StateUnknown
	}
}
