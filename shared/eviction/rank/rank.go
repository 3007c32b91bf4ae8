package rank

import (
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// orderFor is the order for a signal: host and plugins have it from
// here.
//
//   - Memory and disks: pods that use more than their request, then lower priority, then
//     larger use beyond the request (rankMemoryPressure, rankDiskPressureFunc).
//   - Processes, for which there are no requests: lower priority, then more of them
//     (rankPIDPressure).
//   - A signal that is not the kubelet's: lower priority, then larger use as its measurer
//     has it, then QoS class, which decides alone without measurements.
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

// For returns the kubelet's order for one of its signals, and for any other
// signal lower priority, then larger use, then BestEffort before Burstable before
// Guaranteed.
func For(s eviction.Signal) Compare { return by(orderFor(s)...) }

// Kubelet is Sort by For(s), which rates each candidate once and is faster by that.
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

// Sort returns the candidates with those first that are to be evicted first; the
// first ones have their key figures as reason. Equal ones stay in their order. It does not
// change its input.
func Sort(candidates []eviction.Candidate, compare Compare) []eviction.Ranked {
	return ranking(candidates, order(len(candidates), between(candidates, compare)))
}

// SortWithReason is Sort for an order that is not the kubelet's: the first ones have
// what reason says of them instead of the kubelet's figures, or nothing if it is nil.
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

// order returns n positions in the order of compare, equal ones as they are.
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

// reasoned bounds the pods of a ranking that get a reason: no reader looks at more.
const reasoned = 64

// ranking gives the first candidates in order their reasons, which share one piece
// of memory.
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
