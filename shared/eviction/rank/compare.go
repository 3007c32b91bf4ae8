package rank

import (
	"cmp"
	"math/bits"

	"github.com/evictd/evictd/shared/eviction"
)

// Compare is negative if a is to be evicted before b, positive for the reverse
// and 0 if it does not matter. It is a strict weak order.
type Compare func(a, b *eviction.Candidate) int

// Chain compares by the first of its comparators that makes a difference.
func Chain(compares ...Compare) Compare {
	return func(a, b *eviction.Candidate) int {
		for _, compare := range compares {
			if c := compare(a, b); c != 0 {
				return c
			}
		}
		return 0
	}
}

// Priority puts the lower priority first.
func Priority(a, b *eviction.Candidate) int { return cmp.Compare(a.Pod.Priority, b.Pod.Priority) }

// ExceedsRequest puts pods first that use more of s than they have requested.
// Pods without stats go before them; pods of unknown use do not exceed.
func ExceedsRequest(s eviction.Signal) Compare {
	usage, request := usageOf(s), requestOf(s)
	return func(a, b *eviction.Candidate) int {
		return cmp.Compare(classOf(a, usage(a) > request(a)), classOf(b, usage(b) > request(b)))
	}
}

// classOf is 0 for a pod without stats, 1 for one that uses more than its request
// and 2 for all others.
func classOf(c *eviction.Candidate, exceeds bool) int8 {
	switch {
	case c.Measurement.State == eviction.NoStats:
		return 0
	case c.Measurement.State == eviction.Measured && exceeds:
		return 1
	default:
		return 2
	}
}

// Usage puts the larger use of s first. Pods without stats go before all others
// and pods of unknown use after them.
func Usage(s eviction.Signal) Compare {
	usage := usageOf(s)
	return byFigure(func(a, b *eviction.Candidate) int { return cmp.Compare(usage(b), usage(a)) })
}

// UsageOverRequest puts the larger use of s beyond the request first. Pods without
// stats go before all others and pods of unknown use after them.
//
// For inodes, which nobody can request, the kubelet subtracts the request for
// ephemeral storage, bytes from inodes (rankDiskPressureFunc). It is kept so that
// the same pod goes first: inside a priority one with such a request never does.
func UsageOverRequest(s eviction.Signal) Compare {
	usage, request := usageOf(s), subtractedFor(s)
	return byFigure(func(a, b *eviction.Candidate) int {
		return compareDifferences(usage(b), request(b), usage(a), request(a))
	})
}

// byFigure applies compare to pods that both have figures.
func byFigure(compare Compare) Compare {
	return func(a, b *eviction.Candidate) int {
		ca, cb := figureClass(a), figureClass(b)
		if ca == figureKnown && cb == figureKnown {
			return compare(a, b)
		}
		return cmp.Compare(ca, cb)
	}
}

// figureKnown is the figureClass of pods that are compared by their figures.
const figureKnown = 1

func figureClass(c *eviction.Candidate) int8 {
	switch c.Measurement.State {
	case eviction.NoStats:
		return 0
	case eviction.Measured:
		return figureKnown
	default:
		return 2
	}
}

// compareDifferences compares a-b with c-d in 128 bits: in 64 a large negative
// request would turn the order around.
func compareDifferences(a, b, c, d int64) int {
	hi1, lo1 := difference(a, b)
	hi2, lo2 := difference(c, d)
	return cmp.Or(cmp.Compare(hi1, hi2), cmp.Compare(lo1, lo2))
}

func difference(a, b int64) (hi int64, lo uint64) {
	lo, borrow := bits.Sub64(uint64(a), uint64(b), 0)
	return a>>63 - b>>63 - int64(borrow), lo
}

// amount is a figure of a candidate in base units.
type amount func(*eviction.Candidate) int64

// usageOf returns what a measured candidate uses of s. Both memory signals rank
// by the working set, so the one stands in for the other.
func usageOf(s eviction.Signal) amount {
	if s != eviction.MemoryAvailable && s != eviction.AllocatableMemoryAvailable {
		return func(c *eviction.Candidate) int64 { return c.Measurement.UsageFor(s) }
	}
	return func(c *eviction.Candidate) int64 {
		for i := range c.Measurement.Usage {
			if u := &c.Measurement.Usage[i]; u.Signal == eviction.MemoryAvailable || u.Signal == eviction.AllocatableMemoryAvailable {
				return u.Value
			}
		}
		return c.Measurement.WorkingSetBytes.Value
	}
}

// Request is what the kubelet's order has the use of s exceed or not: 0 where there is
// no such request, as for inodes.
func Request(c *eviction.Candidate, s eviction.Signal) int64 { return requestOf(s)(c) }

// Subtracted is what the kubelet's order takes off the use of s: the request, and for
// inodes that for ephemeral storage, which is in bytes.
func Subtracted(c *eviction.Candidate, s eviction.Signal) int64 { return subtractedFor(s)(c) }

// requestOf returns what a candidate has requested of the resource of s, 0 where
// there is no such request.
func requestOf(s eviction.Signal) amount {
	d, _ := eviction.Builtin(s)
	switch {
	case d.Condition == eviction.MemoryPressure:
		return func(c *eviction.Candidate) int64 { return c.Pod.MemoryRequestBytes }
	case d.Condition == eviction.DiskPressure && d.Unit == eviction.UnitBytes:
		return func(c *eviction.Candidate) int64 { return c.Pod.EphemeralStorageRequestBytes }
	default:
		return func(*eviction.Candidate) int64 { return 0 }
	}
}

// subtractedFor is requestOf but for inodes.
func subtractedFor(s eviction.Signal) amount {
	if d, _ := eviction.Builtin(s); d.Condition == eviction.DiskPressure {
		return func(c *eviction.Candidate) int64 { return c.Pod.EphemeralStorageRequestBytes }
	}
	return requestOf(s)
}
