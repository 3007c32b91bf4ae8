package policy

import (
	"cmp"
	"math"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Choose returns the threshold to act on, and false if there is none: memory first, the kubelet's
// signals before custom ones, then hard before soft, those of the filesystem of containers last,
// then by signal name. The kubelet puts memory first and those of the filesystem of containers
// last, since it derives them from the others, and picks at random beyond that. A custom signal may
// stay low permanently: none of the kubelet's may wait for it.
func Choose(actionable []Threshold) (Threshold, bool) {
	if len(actionable) == 0 {
		return Threshold{}, false
	}
	return slices.MinFunc(actionable, func(a, b Threshold) int {
		return cmp.Or(
			TrueFirst(isMemory(a.Signal), isMemory(b.Signal)),
			TrueFirst(a.Custom == nil, b.Custom == nil),
			TrueFirst(a.Hard(), b.Hard()),
			TrueFirst(!isDerived(a.Signal), !isDerived(b.Signal)),
			cmp.Compare(a.Signal, b.Signal),
			cmp.Compare(a.GracePeriod, b.GracePeriod),
			cmp.Compare(a.Value.canonical(), b.Value.canonical()),
		)
	}), true
}

func isMemory(s eviction.Signal) bool {
	b, _ := eviction.Builtin(s)
	return b.Condition == eviction.MemoryPressure
}

func isDerived(s eviction.Signal) bool {
	b, _ := eviction.Builtin(s)
	return b.Filesystem == eviction.ContainerFs
}

// TrueFirst orders true before false.
func TrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// Concerned returns the thresholds that reclaim for t must satisfy. For the kubelet's signals these
// are all of the kubelet's, like there. Custom signals do not count for them: one that stays low,
// or whose plugin is down, must cost no pod that reclaim has saved. For a custom t those of its
// condition count.
func Concerned(t Threshold, thresholds []Threshold) []Threshold {
	return slices.DeleteFunc(slices.Clone(thresholds), func(u Threshold) bool {
		if t.Custom == nil {
			return u.Custom != nil
		}
		return u.Definition().Condition != t.Definition().Condition
	})
}

// Satisfied reports whether no pod must be evicted after node-level reclaim: every configured
// threshold, even if never met, has its value and its min reclaim available
// (reclaimNodeLevelResources). A signal that is absent is satisfied, one that is unknown is not.
func Satisfied(thresholds []Threshold, observations map[eviction.Signal]eviction.Observation) bool {
	return !slices.ContainsFunc(thresholds, func(t Threshold) bool {
		o := observations[t.Signal]
		return o.State == eviction.Unknown || t.met(o, true)
	})
}

// Shortfall returns how much more must be available to satisfy t and its min
// reclaim, at least 1.
func Shortfall(t Threshold, o eviction.Observation) int64 {
	shortfall := whole(t.required(o.Capacity))
	if shortfall <= o.Available {
		return 1
	}
	if o.Available < 0 { // the difference must fit into an int64
		shortfall = min(shortfall, math.MaxInt64+o.Available)
	}
	return shortfall - o.Available
}
