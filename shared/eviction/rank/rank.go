package rank

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Memory is the order under memory pressure (rankMemoryPressure): pods that use
// more than their request, then lower priority, then larger use beyond it.
func Memory() Compare { return byRequest(eviction.MemoryAvailable) }

// Disk is the order under pressure on a filesystem's bytes or inodes
// (rankDiskPressureFunc), s being the signal: pods that use more than their
// request, then lower priority, then larger use beyond it.
func Disk(s eviction.Signal) Compare { return byRequest(s) }

// PID is the order under PID pressure (rankPIDPressure): lower priority, then
// more processes. There are no requests for processes.
func PID() Compare { return Chain(Priority, Usage(eviction.PIDAvailable)) }

func byRequest(s eviction.Signal) Compare {
	return Chain(ExceedsRequest(s), Priority, UsageOverRequest(s))
}

// For returns the kubelet's order for one of its signals, and for any other
// signal lower priority, then larger use, then BestEffort before Burstable before
// Guaranteed.
func For(s eviction.Signal) Compare {
	d, _ := eviction.Builtin(s)
	switch d.Condition {
	case eviction.MemoryPressure:
		return Memory()
	case eviction.DiskPressure:
		return Disk(s)
	case eviction.PIDPressure:
		return PID()
	default:
		return own(s)
	}
}

// Sort returns the candidates with those first that are to be evicted first; the
// first ones have their key figures as reason. Equal ones stay in their order. It does not
// change its input.
func Sort(candidates []eviction.Candidate, compare Compare) []eviction.Ranked {
	return ranking(candidates, sorted(candidates, compare))
}

// SortWithReason is Sort for an order that is not the kubelet's: the first ones have
// what reason says of them instead of the kubelet's figures, or nothing if it is nil.
func SortWithReason(candidates []eviction.Candidate, compare Compare, reason func(*eviction.Candidate) string) []eviction.Ranked {
	ranked := make([]eviction.Ranked, len(candidates))
	for at, i := range sorted(candidates, compare) {
		ranked[at].UID = candidates[i].Pod.UID
		if reason != nil && at < reasoned {
			ranked[at].Reason = reason(&candidates[i])
		}
	}
	return ranked
}

// sorted returns the candidates' positions in the order of compare.
func sorted(candidates []eviction.Candidate, compare Compare) []int {
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	// Comparing positions last makes any sort stable, and this one is faster than
	// the stable one.
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(compare(&candidates[i], &candidates[j]), cmp.Compare(i, j))
	})
	return order
}
