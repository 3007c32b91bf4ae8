package rank

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// orderFor returns the order for a signal, for the host and for plugins:
//
//   - Memory and disks: pods that use more than their request, then lower priority, then
//     larger usage beyond the request (rankMemoryPressure, rankDiskPressureFunc).
//   - Processes, which cannot be requested: lower priority, then more processes
//     (rankPIDPressure).
//   - Custom signals: lower priority, then larger usage as measured, then QoS class, which
//     alone decides within a priority if there are no measurements.
func orderFor(s eviction.Signal) []criterion {
	switch b, builtin := eviction.Builtin(s); {
	case !builtin:
		return []criterion{priority, usage(s), qos}
	case b.Condition == eviction.PIDPressure:
		return []criterion{priority, usage(s)}
	default:
		return []criterion{exceedsRequest(s), priority, usageOverRequest(s)}
	}
}

// mostCriteria bounds the criteria of an order.
const mostCriteria = 3

// For returns the kubelet's order for one of its signals. For any other signal it is lower
// priority, then larger usage, then BestEffort before Burstable before Guaranteed.
func For(s eviction.Signal) Compare { return by(orderFor(s)...) }

// Kubelet returns the same as Sort with For(s), but is faster: it rates each candidate once.
func Kubelet(candidates []eviction.Candidate, s eviction.Signal) []eviction.Ranked {
	criteria := orderFor(s)
	ratings := make([][mostCriteria]rating, len(candidates))
	for i := range candidates {
		for n, rate := range criteria {
			ratings[i][n] = rate(&candidates[i])
		}
	}
	return ranking(candidates, order(len(candidates), func(i, j int) int {
		a, b := &ratings[i], &ratings[j]
		for n := range a {
			if a[n] != b[n] {
				return a[n].compare(b[n])
			}
		}
		return 0
	}))
}

// Sort returns the candidates in the order of eviction; equal ones keep their order. The first ones
// get their key figures as the reason. It does not change its input.
func Sort(candidates []eviction.Candidate, compare Compare) []eviction.Ranked {
	return ranking(candidates, order(len(candidates), between(candidates, compare)))
}

// SortWithReason is like Sort, but for an order that is not the kubelet's: the reasons come
// from reason instead of the kubelet's figures, and are empty if it is nil.
func SortWithReason(candidates []eviction.Candidate, compare Compare, reason func(*eviction.Candidate) string) []eviction.Ranked {
	ranked := make([]eviction.Ranked, len(candidates))
	for at, i := range order(len(candidates), between(candidates, compare)) {
		ranked[at].UID = candidates[i].Pod.UID
		if reason != nil && at < reasoned {
			ranked[at].Reason = reason(&candidates[i])
		}
	}
	return ranked
}

func between(candidates []eviction.Candidate, compare Compare) func(i, j int) int {
	return func(i, j int) int { return compare(&candidates[i], &candidates[j]) }
}

// order returns the positions 0 to n-1 sorted by compare; equal ones keep their order.
func order(n int, compare func(i, j int) int) []int {
	positions := make([]int, n)
	for i := range positions {
		positions[i] = i
	}
	// Comparing positions last makes any sort stable, and this one is faster than
	// the stable one.
	slices.SortFunc(positions, func(i, j int) int {
		if c := compare(i, j); c != 0 {
			return c
		}
		return i - j
	})
	return positions
}

// reasoned is the number of pods at the head of a ranking that get a reason.
const reasoned = 64

// ranking returns the candidates in the given order. The reasons of the first ones share one
// string, to save allocations.
func ranking(candidates []eviction.Candidate, order []int) []eviction.Ranked {
	var text []byte
	ends := make([]int, min(len(order), reasoned))
	for at := range ends {
		text = appendReason(text, &candidates[order[at]])
		ends[at] = len(text)
	}
	reasons, from := string(text), 0
	ranked := make([]eviction.Ranked, len(order))
	for at, i := range order {
		ranked[at].UID = candidates[i].Pod.UID
		if at < len(ends) {
			ranked[at].Reason = reasons[from:ends[at]]
			from = ends[at]
		}
	}
	return ranked
}
