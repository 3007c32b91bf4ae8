package policy

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

// A condition appears with its cause and goes exactly one transition period after
// the cause was last seen, not a nanosecond before.
func TestConditionsFollowTheTransitionPeriod(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		var a Assessment
		last := map[eviction.Condition]time.Time{}
		for _, in := range onlyKnown(run) {
			s, a = Assess(s, in)
			for _, o := range a.Observed {
				c := o.Definition().Condition
				last[c] = in.Now
				if in.TransitionPeriod > 0 && !slices.Contains(a.Conditions, c) {
					return fmt.Errorf("%s is met, %s is not reported", o.Threshold, c)
				}
			}
			calm := Input{Thresholds: in.Thresholds, TransitionPeriod: in.TransitionPeriod, Observations: map[eviction.Signal]eviction.Observation{}}
			for _, signal := range allSignals() {
				calm.Observations[signal] = eviction.Observation{Signal: signal, State: eviction.Observed, Available: 1 << 50, Capacity: 1 << 51}
			}
			for _, c := range allConditions {
				seen, ever := last[c]
				end := seen.Add(in.TransitionPeriod)
				if !ever || !end.After(in.Now) {
					if slices.Contains(a.Conditions, c) {
						return fmt.Errorf("%s is reported %s after it was last seen, of %s", c, in.Now.Sub(seen), in.TransitionPeriod)
					}
					continue
				}
				for wait, want := range map[time.Duration]bool{-1: true, 0: false, time.Hour: false} {
					calm.Now = end.Add(wait)
					if _, b := Assess(s, calm); slices.Contains(b.Conditions, c) != want {
						return fmt.Errorf("%s is reported %v at %s from the end of its %s", c, !want, wait, in.TransitionPeriod)
					}
				}
			}
		}
		return nil
	})
}

// Neither the order of thresholds nor that of a map changes what follows.
func TestTheOrderOfThresholdsDoesNotMatter(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		r := rand.New(rand.NewPCG(3, 9))
		var s, shuffled State
		for _, in := range run {
			other := in
			other.Thresholds, other.Observations = slices.Clone(in.Thresholds), maps.Clone(in.Observations)
			r.Shuffle(len(other.Thresholds), func(i, j int) {
				other.Thresholds[i], other.Thresholds[j] = other.Thresholds[j], other.Thresholds[i]
			})
			var a, b Assessment
			s, a = Assess(s, in)
			shuffled, b = Assess(shuffled, other)
			if !sameState(s, shuffled) {
				return fmt.Errorf("another state from another order:\n%s", cmp.Diff(s, shuffled, stateInside))
			}
			chosen, ok := Choose(a.Actionable)
			if again, _ := Choose(b.Actionable); ok && again.Key() != chosen.Key() {
				return fmt.Errorf("%s or %s, depending on the order", chosen, again)
			}
			for _, lists := range [][2][]Threshold{{a.Met, b.Met}, {a.Actionable, b.Actionable}} {
				if !maps.Equal(keys(lists[0]), keys(lists[1])) {
					return fmt.Errorf("%v from one order, %v from another", lists[0], lists[1])
				}
			}
			if !slices.Equal(a.Conditions, b.Conditions) || !slices.Equal(a.Raised, b.Raised) || !slices.Equal(a.Cleared, b.Cleared) {
				return fmt.Errorf("conditions %v from one order, %v from another", a.Conditions, b.Conditions)
			}
			if Satisfied(in.Thresholds, in.Observations) != Satisfied(other.Thresholds, other.Observations) {
				return errors.New("satisfied, depending on the order")
			}
		}
		return nil
	})
}

// What nobody knows is not acted on, and nothing that is known of it changes.
func TestUnknownNeverActs(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		for _, in := range run {
			before := s
			var a Assessment
			s, a = Assess(s, in)
			for _, th := range in.Thresholds {
				if in.Observations[th.Signal].State != eviction.Unknown {
					continue
				}
				key := th.Key()
				if keys(a.Actionable)[key] {
					return fmt.Errorf("%s is acted on, but unknown", th)
				}
				first, ok := before.firstObserved[key]
				if now, still := s.firstObserved[key]; ok != still || !now.Equal(first) {
					return fmt.Errorf("%s was met since %s (%v), now since %s (%v)", th, first, ok, now, still)
				}
				if before.met[key] != s.met[key] || before.stamps[sampler{signal: th.Signal}] != s.stamps[sampler{signal: th.Signal}] {
					return fmt.Errorf("%s: what was known of it changed", th)
				}
				held := source{th.Definition().Condition, th.Signal}
				if p, was := before.pressure[held]; was && s.pressure[held] != p {
					return fmt.Errorf("%s does not hold up its condition any more", th)
				}
				if Satisfied([]Threshold{th}, in.Observations) {
					return fmt.Errorf("%s is satisfied, but unknown", th)
				}
			}
		}
		return nil
	})
}

// Min reclaim never makes a threshold met that was not, never ends one, and lasts
// only as long as the value and min reclaim are not both available.
func TestMinReclaimOnlyProlongs(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var with, without State
		for _, in := range run {
			plain := in
			plain.Thresholds = slices.Clone(in.Thresholds)
			for i := range plain.Thresholds {
				plain.Thresholds[i].MinReclaim = nil
			}
			before := with
			var a, b Assessment
			with, a = Assess(with, in)
			without, b = Assess(without, plain)
			prolonged, short := observedKeys(a), observedKeys(b)
			for key := range short {
				if _, ok := prolonged[key]; !ok {
					return fmt.Errorf("%v is met, but not with min reclaim", key)
				}
			}
			for key := range keys(b.Met) {
				if !keys(a.Met)[key] {
					return fmt.Errorf("%v was met for its grace period, but not with min reclaim", key)
				}
			}
			for key, o := range prolonged {
				if _, ok := short[key]; ok || o.Frozen {
					continue
				}
				if o.MinReclaim == nil || !before.met[key] {
					return fmt.Errorf("%s is met without a reason", o.Threshold)
				}
				if Satisfied([]Threshold{o.Threshold}, in.Observations) {
					return fmt.Errorf("%s is met, but has its min reclaim", o.Threshold)
				}
			}
		}
		return nil
	})
}

// The grace period counts from the first of the passes that find a threshold met;
// an unknown one between them neither counts nor breaks the row.
func TestGraceCountsFromTheFirstPass(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		since := map[Key]time.Time{}
		for _, in := range run {
			var a Assessment
			s, a = Assess(s, in)
			found, met := observedKeys(a), keys(a.Met)
			for _, th := range in.Thresholds {
				key := th.Key()
				o, ok := found[key]
				start, before := since[key]
				switch {
				case !ok:
					delete(since, key)
					continue
				case !before:
					since[key], start = in.Now, in.Now
				}
				if !o.FirstObservedAt.Equal(start) {
					return fmt.Errorf("%s counts from %s, want from %s", th, o.FirstObservedAt, start)
				}
				if over := in.Now.Sub(start) >= th.GracePeriod; !o.Frozen && met[key] != over {
					return fmt.Errorf("%s counts %v after %s", th, met[key], in.Now.Sub(start))
				}
			}
		}
		return nil
	})
}

// No sample is acted on twice, and none that is older than one that was seen in
// the pass before.
func TestStaleStatsNeverAct(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		last := map[eviction.Signal]time.Time{}
		for _, in := range run {
			var a Assessment
			s, a = Assess(s, in)
			for _, th := range a.Actionable {
				sampled := in.Observations[th.Signal].Time
				if former, ok := last[th.Signal]; ok && !sampled.IsZero() && !sampled.After(former) {
					return fmt.Errorf("%s is acted on with figures of %s, %s was seen before", th, sampled, former)
				}
			}
			for signal, o := range in.Observations {
				switch o.State {
				case eviction.Observed:
					last[signal] = o.Time
				case eviction.Absent:
					delete(last, signal)
				case eviction.Unknown:
				}
			}
			same := in
			same.Now = in.Now.Add(time.Second)
			if _, again := Assess(s, same); len(again.Actionable) > 0 {
				return fmt.Errorf("%v are acted on a second time with the same figures", again.Actionable)
			}
		}
		return nil
	})
}

// A restarted host reports what the former one did, for as long, and acts on
// nothing that it has not seen itself.
func TestRestoreKeepsConditionsAndNothingElse(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		for _, in := range onlyKnown(run) {
			s, _ = Assess(s, in)
			restored := Restore(s.ConditionsLastSeen())
			if former, now := s.ConditionsLastSeen(), restored.ConditionsLastSeen(); !maps.Equal(former, now) {
				return fmt.Errorf("restored %v from %v", now, former)
			}
			calm := in
			calm.Observations = map[eviction.Signal]eviction.Observation{}
			for _, th := range in.Thresholds {
				calm.Observations[th.Signal] = eviction.Observation{Signal: th.Signal, State: eviction.Absent}
			}
			for _, wait := range []time.Duration{0, time.Second, in.TransitionPeriod / 2, in.TransitionPeriod} {
				calm.Now = in.Now.Add(wait)
				_, a := Assess(s, calm)
				_, b := Assess(restored, calm)
				if !slices.Equal(a.Conditions, b.Conditions) {
					return fmt.Errorf("%v after %s, %v without the restart", b.Conditions, wait, a.Conditions)
				}
				if len(b.Observed) > 0 {
					return fmt.Errorf("%v are met after a restart that saw nothing", b.Observed)
				}
			}
		}
		return nil
	})
}

// What a plugin that went has left behind is over after the transition period,
// whatever is known of the rest: its timers at once, its condition in time. Timers
// of others go on.
func TestAPluginThatGoesLeavesNothingBehind(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s, undisturbed State
		for i, in := range run {
			gone := in
			if i >= len(run)/2 {
				gone.Thresholds = slices.DeleteFunc(slices.Clone(in.Thresholds), func(th Threshold) bool { return th.Custom != nil })
			}
			var a, b Assessment
			s, a = Assess(s, gone)
			undisturbed, b = Assess(undisturbed, in)
			if i < len(run)/2 {
				continue
			}
			since := in.Now.Sub(run[len(run)/2-1].Now)
			for _, c := range a.Conditions {
				if _, builtin := conditionTexts[c]; !builtin && since >= in.TransitionPeriod {
					return fmt.Errorf("%s is reported %s after its plugin went, of %s", c, since, in.TransitionPeriod)
				}
			}
			for key := range s.firstObserved {
				if _, builtin := eviction.Builtin(key.Signal); !builtin {
					return fmt.Errorf("%v is still met", key)
				}
				if !s.firstObserved[key].Equal(undisturbed.firstObserved[key]) {
					return fmt.Errorf("%v was met since %s, want %s", key, s.firstObserved[key], undisturbed.firstObserved[key])
				}
			}
			others := slices.DeleteFunc(slices.Clone(b.Actionable), func(th Threshold) bool { return th.Custom != nil })
			if !maps.Equal(keys(a.Actionable), keys(others)) {
				return fmt.Errorf("%v are acted on, want %v", a.Actionable, others)
			}
		}
		return nil
	})
}
