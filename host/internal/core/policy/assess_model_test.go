package policy

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// model is the bookkeeping of passes as the kubelet does it: with lists of what
// was met, one step after the other, and no notion of a figure that is not known.
type model struct {
	met          []Threshold
	first        map[Key]time.Time
	lastSeen     map[eviction.Condition]time.Time
	observations map[eviction.Signal]eviction.Observation
}

// modelled is the result of a pass of the model.
type modelled struct {
	observed, met, actionable map[Key]bool
	conditions                map[eviction.Condition]bool
}

func (m *model) pass(in Input) modelled {
	below := func(t Threshold, reclaim bool) bool {
		o := in.Observations[t.Signal]
		wanted := t.Amount(o.Capacity)
		if reclaim && t.MinReclaim != nil {
			wanted.Add(t.MinReclaim.Of(o.Capacity))
		}
		return o.State == eviction.Observed && wanted.CmpInt64(o.Available) > 0
	}
	var observed []Threshold
	for _, t := range in.Thresholds {
		if below(t, false) {
			observed = append(observed, t)
		}
	}
	for _, t := range m.met {
		if below(t, true) && !keys(observed)[t.Key()] {
			observed = append(observed, t)
		}
	}
	first := map[Key]time.Time{}
	for _, t := range observed {
		first[t.Key()] = in.Now
		if since, ok := m.first[t.Key()]; ok {
			first[t.Key()] = since
		}
	}
	seen := maps.Clone(m.lastSeen)
	for _, t := range observed {
		seen[t.Definition().Condition] = in.Now
	}
	conditions := map[eviction.Condition]bool{}
	for c, at := range seen {
		if in.Now.Sub(at) < in.TransitionPeriod {
			conditions[c] = true
		}
	}
	var met, actionable []Threshold
	for _, t := range observed {
		if in.Now.Sub(first[t.Key()]) >= t.GracePeriod {
			met = append(met, t)
		}
	}
	for _, t := range met {
		o := in.Observations[t.Signal]
		former, ok := m.observations[t.Signal]
		if !ok || former.State != eviction.Observed || o.Time.IsZero() || o.Time.After(former.Time) {
			actionable = append(actionable, t)
		}
	}
	*m = model{met: met, first: first, lastSeen: seen, observations: in.Observations}
	return modelled{keys(observed), keys(met), keys(actionable), conditions}
}

// Where everything is known, Assess says what the kubelet's bookkeeping says.
func TestAssessIsTheKubeletsBookkeeping(t *testing.T) {
	forSeeds(t, func(run []Input) error {
		var s State
		m := model{lastSeen: map[eviction.Condition]time.Time{}}
		for i, in := range onlyKnown(run) {
			var a Assessment
			s, a = Assess(s, in)
			want := m.pass(in)
			observed := map[Key]bool{}
			for _, o := range a.Observed {
				observed[o.Key()] = true
			}
			conditions := map[eviction.Condition]bool{}
			for _, c := range a.Conditions {
				conditions[c] = true
			}
			for name, lists := range map[string][2]map[Key]bool{
				"observed": {observed, want.observed}, "met": {keys(a.Met), want.met}, "actionable": {keys(a.Actionable), want.actionable},
			} {
				if !maps.Equal(lists[0], lists[1]) {
					return fmt.Errorf("pass %d: %s %v, want %v", i, name, lists[0], lists[1])
				}
			}
			if !maps.Equal(conditions, want.conditions) {
				return fmt.Errorf("pass %d: conditions %v, want %v", i, a.Conditions, slices.Collect(maps.Keys(want.conditions)))
			}
		}
		return nil
	})
}
