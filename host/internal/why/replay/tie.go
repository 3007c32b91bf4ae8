package replay

import (
	"slices"
)

// tiedAlike reports whether got is one of the outcomes that want represents: many pods rank equal,
// and not all outcomes were recorded. The victim must be one of these pods, and everything that
// does not depend on its identity must be equal.
func tiedAlike(got, want *Outcome) bool {
	if !want.TieTruncated || len(got.Evictions) != 1 || len(want.Evictions) != 1 {
		return false
	}
	victim := got.Evictions[0].UID
	if victim == want.Evictions[0].UID || !slices.Contains(want.TiedPods, victim) || !slices.Equal(got.Returned, []string{victim}) {
		return false
	}
	for _, e := range got.Events {
		if e.Kind == kindPod && e.UID != victim {
			return false
		}
	}
	return len(compareOutcome(anonymous(got), anonymous(want))) == 0
}

// anonymous returns o without the parts that depend on the identity of victims.
func anonymous(o *Outcome) *Outcome {
	out := *o
	out.Returned = nil
	out.Evictions = slices.Clone(o.Evictions)
	for i, e := range out.Evictions {
		out.Evictions[i] = Eviction{IsEvicted: e.IsEvicted, Phase: e.Phase, Reason: e.Reason}
	}
	out.Events = slices.Clone(o.Events)
	for i, e := range out.Events {
		if e.Kind == kindPod {
			out.Events[i] = Event{Kind: e.Kind, Type: e.Type, Reason: e.Reason}
		}
	}
	return &out
}
