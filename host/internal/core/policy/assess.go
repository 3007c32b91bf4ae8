package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// State is passed from one pass to the next. The zero State is a start with nothing known. A State
// is immutable: Assess returns a new one, and a caller may keep or return to an old one.
type State struct {
	// firstObserved holds the thresholds that are met, regardless of the grace period, and since
	// when.
	firstObserved map[Key]time.Time
	// met holds the thresholds that were met for their whole grace period; only these are prolonged
	// by min reclaim.
	met map[Key]bool
	// stamps distinguish the samples of the last pass from newer ones.
	stamps map[sampler]Moment
	// pressure holds the sources that keep conditions raised.
	pressure map[source]pressure
}

// A source is a signal that has raised a condition. Conditions that a former
// host has left behind come without a signal. Keeping them apart lets one
// signal's condition end while another signal is unknown.
type source struct {
	condition eviction.Condition
	signal    eviction.Signal
}

// pressure holds when each source was last under pressure. A source in it keeps its condition
// raised until a pass that knows the source finds that the transition period is over.
type pressure struct {
	last time.Time
	// inherited: from a former host and not observed yet. It may have expired while no host was
	// running.
	inherited bool
}

// Restore returns the state of a host that only knows when a former one last saw conditions, on the
// clock that Assess uses.
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

// conditions lists the reported conditions by name.
func (s State) conditions() []eviction.Condition {
	held := make(map[eviction.Condition]bool, len(s.pressure))
	for src := range s.pressure {
		held[src.condition] = true
	}
	return slices.Sorted(maps.Keys(held))
}

// Input holds the findings of a pass.
type Input struct {
	Now time.Time
	// Thresholds holds all in force, including those that this pass did not observe: one that is
	// left out is forgotten with its timers. Leave out thresholds of signals that no plugin serves
	// any more.
	Thresholds []Threshold
	// Observations of the pass. A signal that is not in it is unknown.
	Observations map[eviction.Signal]eviction.Observation
	// Claims holds the figures of all observers of signals with several, the one that counts first:
	// see State.Count. Observations has that one, too.
	Claims map[eviction.Signal][]Claim
	// TransitionPeriod is the time for which a condition outlives its cause. At zero no condition
	// is ever reported; the kubelet's configuration therefore replaces zero by five minutes.
	TransitionPeriod time.Duration
}

// Assessment is the result of a pass.
type Assessment struct {
	// Observed holds the thresholds that are met, regardless of their grace period, in the order of
	// Input.Thresholds.
	Observed []Observed
	// Met holds the thresholds of Observed whose grace period is over.
	Met []Threshold
	// Actionable holds the thresholds of Met with newer figures than in the last pass. Only they
	// may have a pod evicted.
	Actionable []Threshold
	// Conditions to report, by name.
	Conditions []eviction.Condition
	// Raised and Cleared are the changes of Conditions.
	Raised, Cleared []eviction.Condition
}

// Observed is a threshold that is met.
type Observed struct {
	Threshold
	// FirstObservedAt is the first of the consecutive passes in which it was met.
	FirstObservedAt time.Time
	// Frozen: the signal is unknown in this pass, so its former state stays.
	Frozen bool
}

// Assess draws the conclusions of one pass (rules of the kubelet's synchronize).
//
// A signal that is absent does not meet its thresholds, and resets their timers. A signal that is
// unknown changes nothing: the timers of its thresholds, whether they count for min reclaim, the
// time of its last sample and the condition it keeps raised stay, and its thresholds are not acted
// on. A source of a condition that no longer has a threshold, because it was removed from the
// configuration, or its plugin was removed or redefined the signal, expires after the transition
// period, whatever else is unknown.
func Assess(s State, in Input) (State, Assessment) {
	next := State{
		firstObserved: map[Key]time.Time{},
		met:           map[Key]bool{},
		stamps:        maps.Clone(s.stamps),
		pressure:      map[source]pressure{},
	}
	var a Assessment
	for _, t := range in.Thresholds {
		o, ok := s.observe(t, in)
		if !ok {
			continue
		}
		key := t.Key()
		a.Observed = append(a.Observed, o)
		next.firstObserved[key] = o.FirstObservedAt
		met := in.Now.Sub(o.FirstObservedAt) >= t.GracePeriod
		if o.Frozen {
			met = s.met[key]
		}
		if !met {
			continue
		}
		next.met[key] = true
		a.Met = append(a.Met, t)
		if !o.Frozen && s.fresh(in.counted(t.Signal), in.Observations[t.Signal]) {
			a.Actionable = append(a.Actionable, t)
		}
	}
	next.remember(in)
	next.hold(s, in, a.Observed)

	before := s.conditions()
	a.Conditions = next.conditions()
	a.Raised = without(a.Conditions, before)
	a.Cleared = without(before, a.Conditions)
	return next, a
}

// observe returns t and whether it is met: as before if its signal is unknown,
// and with min reclaim on top if the last pass could have acted on it.
func (s State) observe(t Threshold, in Input) (Observed, bool) {
	key := t.Key()
	first, before := s.firstObserved[key]
	o := in.Observations[t.Signal]
	if o.State == eviction.Unknown {
		return Observed{Threshold: t, FirstObservedAt: first, Frozen: true}, before
	}
	if !before {
		first = in.Now
	}
	return Observed{Threshold: t, FirstObservedAt: first}, t.met(o, s.met[key])
}

// fresh reports whether o was sampled after the last pass's sample from the same sampler.
func (s State) fresh(from sampler, o eviction.Observation) bool {
	last, ok := s.stamps[from]
	return !ok || momentOf(o).after(last)
}

// remember stamps the samples of this pass, also those that were not acted on:
// the next action needs newer ones.
func (s *State) remember(in Input) {
	if s.stamps == nil {
		s.stamps = make(map[sampler]Moment, len(in.Observations))
	}
	for signal, o := range in.Observations {
		s.stamp(in.counted(signal), o)
	}
	for _, f := range in.others() {
		s.stamp(f.sampler(), f.Observation)
	}
}

func (s *State) stamp(from sampler, o eviction.Observation) {
	switch o.State {
	case eviction.Observed:
		s.stamps[from] = momentOf(o)
	case eviction.Absent:
		delete(s.stamps, from)
	case eviction.Unknown:
	}
}

// hold determines the sources of conditions after this pass. A threshold counts from its first
// moment, before its grace period is over.
func (s *State) hold(before State, in Input, observed []Observed) {
	for src, p := range before.pressure {
		if p.last.After(in.Now) { // a clock that was set back must not prolong it
			p.last = in.Now
		}
		known := p.inherited || !in.unknown(src)
		if !known || in.Now.Sub(p.last) < in.TransitionPeriod {
			s.pressure[src] = pressure{last: p.last}
		}
	}
	for _, o := range observed {
		if !o.Frozen && in.TransitionPeriod > 0 {
			s.pressure[source{o.Definition().Condition, o.Signal}] = pressure{last: in.Now}
		}
	}
}

// unknown reports whether a pass knows nothing of src, which then stays unchanged. A source from a
// former host waits for the first known signal of the condition.
func (in Input) unknown(src source) bool {
	looked := false
	for _, t := range in.Thresholds {
		if t.Definition().Condition != src.condition || src.signal != "" && src.signal != t.Signal {
			continue
		}
		if in.Observations[t.Signal].State != eviction.Unknown {
			return false
		}
		looked = true
	}
	return looked
}

// UntilGraceEnds returns the time from now until the first grace period of a met threshold ends; 0
// if there is none.
func UntilGraceEnds(a Assessment, now time.Time) time.Duration {
	var soonest time.Duration
	for _, o := range a.Observed {
		left := o.GracePeriod - now.Sub(o.FirstObservedAt)
		if left > 0 && (soonest == 0 || left < soonest) {
			soonest = left
		}
	}
	return soonest
}

func without(all, drop []eviction.Condition) []eviction.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c eviction.Condition) bool { return slices.Contains(drop, c) })
}
