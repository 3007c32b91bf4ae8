package decision

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

// An Observation is a figure of a signal, in its base unit.
type Observation struct {
	Signal     eviction.Signal  `json:"signal"`
	State      string           `json:"state"`
	Available  int64            `json:"available"`
	Capacity   int64            `json:"capacity"`
	Time       time.Time        `json:"time"`
	Components map[string]int64 `json:"components,omitempty"`
	Err        string           `json:"error,omitempty"`
}

// Observations returns observations in the form of records, sorted by signal.
func Observations(observed map[eviction.Signal]eviction.Observation) []Observation {
	out := make([]Observation, 0, len(observed))
	for _, s := range slices.Sorted(maps.Keys(observed)) {
		o := observed[s]
		row := Observation{Signal: s, State: StateName(o.State), Available: o.Available, Capacity: o.Capacity, Time: o.Time, Err: o.Err}
		for _, c := range o.Components {
			if row.Components == nil {
				row.Components = map[string]int64{}
			}
			row.Components[c.Name] = c.Value
		}
		out = append(out, row)
	}
	return out
}

// StateName returns the name of a state in records.
func StateName(s eviction.ObservationState) string {
	switch s {
	case eviction.Observed:
		return StateObserved
	case eviction.Absent:
		return StateAbsent
	default:
		return StateUnknown
	}
}

// Policy converts s to policy's input.
func (s *Observation) Policy() eviction.Observation {
	out := eviction.Observation{Signal: s.Signal, Available: s.Available, Capacity: s.Capacity, Time: s.Time}
	switch s.State {
	case StateObserved:
		out.State = eviction.Observed
	case StateAbsent:
		out.State = eviction.Absent
	}
	return out
}

// Observation returns the observation of a signal, nil if there is none.
func (d *Decision) Observation(s eviction.Signal) *Observation {
	if d == nil {
		return nil
	}
	for i := range d.Observations {
		if d.Observations[i].Signal == s {
			return &d.Observations[i]
		}
	}
	return nil
}
