package rank

import (
	"cmp"
	"math"
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

// A rating is compared by an order: the candidate with the lower one goes first. It has 128
// bits, since in 64 the difference from a large negative request would turn the order around.
type rating struct {
	hi int64
	lo uint64
}

func (r rating) compare(other rating) int {
	return cmp.Or(cmp.Compare(r.hi, other.hi), cmp.Compare(r.lo, other.lo))
}

// difference is a-b.
func difference(a, b int64) rating {
	lo, borrow := bits.Sub64(uint64(a), uint64(b), 0)
	return rating{a>>63 - b>>63 - int64(borrow), lo}
}

// A criterion rates candidates.
type criterion func(*eviction.Candidate) rating

// by compares by the first of the criteria that makes a difference.
func by(criteria ...criterion) Compare {
	return func(a, b *eviction.Candidate) int {
		for _, rate := range criteria {
			if ra, rb := rate(a), rate(b); ra != rb {
				return ra.compare(rb)
			}
		}
		return 0
	}
}

func priority(c *eviction.Candidate) rating { return rating{hi: int64(c.Pod.Priority)} }

func exceedsRequest(s eviction.Signal) criterion {
	usage, request := usageOf(s), requestOf(s)
	return func(c *eviction.Candidate) rating {
		switch {
		case c.Measurement.State == eviction.NoStats:
			return rating{hi: 0}
		case c.Measurement.State == eviction.Measured && usage(c) > request(c):
			return rating{hi: 1}
		default:
			return rating{hi: 2}
		}
	}
}

// usage and usageOverRequest put pods without stats before the measured ones, and those of
// unknown use after them.
func usage(s eviction.Signal) criterion {
	used := usageOf(s)
	return func(c *eviction.Candidate) rating {
		if c.Measurement.State != eviction.Measured {
			return unmeasured(c)
		}
		return difference(0, used(c))
	}
}

func usageOverRequest(s eviction.Signal) criterion {
	used, request := usageOf(s), subtractedFor(s)
	return func(c *eviction.Candidate) rating {
		if c.Measurement.State != eviction.Measured {
			return unmeasured(c)
		}
		return difference(request(c), used(c))
	}
}

// unmeasured is below or above all differences.
func unmeasured(c *eviction.Candidate) rating {
	if c.Measurement.State == eviction.NoStats {
		return rating{hi: math.MinInt64}
	}
	return rating{hi: math.MaxInt64}
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

// Used returns the usage of s of a measured candidate that the kubelet's order compares.
func Used(c *eviction.Candidate, s eviction.Signal) int64 { return usageOf(s)(c) }

// Request returns the request that the kubelet's order compares the usage of s with: 0 where
// there is none, as for inodes.
func Request(c *eviction.Candidate, s eviction.Signal) int64 { return requestOf(s)(c) }

// Subtracted returns what the kubelet's order takes off the usage of s: the request, and for
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
