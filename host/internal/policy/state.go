package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// State is what passes hand on to the next one. The zero State is a start with
// nothing known. A State never changes: Assess returns a new one, and a caller
// may keep or come back to an old one.
type State struct {
	// firstObserved has the thresholds that were met, with or without their grace
	// period over, and since when.
	firstObserved map[Key]time.Time
	// met has the thresholds that were met for their whole grace period; only
	// these are prolonged by min reclaim.
	met map[Key]bool
	// stamps tell the samples of the last pass from newer ones.
	stamps map[sampler]Moment
	// pressure is what holds conditions up.
	pressure map[source]pressure
}

// A source is a signal that has raised a condition. Conditions that a former
// host has left behind come without a signal. Keeping them apart lets one
// signal's condition end while another signal is unknown.
type source struct {
	condition eviction.Condition
	signal    eviction.Signal
}

// pressure is when a source was last under pressure. A source that has it holds
// its condition up, until a pass that knows the source finds that the
// transition period is over.
type pressure struct {
	last time.Time
	// inherited: left behind by a former host and not looked at yet. It may have
	// run out while no host was running.
	inherited bool
}

// Restore returns the state of a host that knows only when a former one last
// saw conditions, in the clock that Assess gets.
func Restore(conditionsLastSeen map[eviction.Condition]time.Time) State {
	s := State{pressure: make(map[source]pressure, len(conditionsLastSeen))}
	for c, last := range conditionsLastSeen {
		s.pressure[source{condition: c}] = pressure{last: last, inherited: true}
	}
	return s
}

// Observed reports whether t was met, whether or not its grace period is over.
func (s State) Observed(t Threshold) bool {
	_, observed := s.firstObserved[t.Key()]
	return observed
}

// Stands reports whether t was met for its whole grace period, by what was observed when
// its signal was last looked at: what is frozen as met is no reason to evict.
func (s State) Stands(t Threshold, last eviction.Observation) bool {
	return s.met[t.Key()] && last.State == eviction.Observed
}

// ConditionsLastSeen returns when each reported condition was last seen, for
// Restore.
func (s State) ConditionsLastSeen() map[eviction.Condition]time.Time {
	out := make(map[eviction.Condition]time.Time, len(s.pressure))
	for src, p := range s.pressure {
		if last, ok := out[src.condition]; !ok || p.last.After(last) {
			out[src.condition] = p.last
		}
	}
	return out
}

// conditions lists what is reported, by name.
func (s State) conditions() []eviction.Condition {
	held := make(map[eviction.Condition]bool, len(s.pressure))
	for src := range s.pressure {
		held[src.condition] = true
	}
	return slices.Sorted(maps.Keys(held))
}
