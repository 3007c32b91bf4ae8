package rank

import (
	"cmp"
	"math"
	"math/bits"

	"github.com/evictd/evictd/shared/eviction"
)

// Compare returns a negative number if a is to be evicted before b, a positive one for the
// reverse and 0 if they are equal. It must be a strict weak order.
type Compare func(a, b *eviction.Candidate) int

// Chain compares by the first of its comparators that does not return 0.
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

// A rating is a candidate's sort key: the lowest is evicted first. It has 128 bits, since the
// difference from a large negative request overflows 64 bits and would reverse the order.
type rating struct {
	hi int64
	lo uint64
}

func (r rating) compare(other rating) int {
	return cmp.Or(cmp.Compare(r.hi, other.hi), cmp.Compare(r.lo, other.lo))
}

// difference returns a-b.
func difference(a, b int64) rating {
	lo, borrow := bits.Sub64(uint64(a), uint64(b), 0)
	return rating{a>>63 - b>>63 - int64(borrow), lo}
}

// A criterion rates candidates.
type criterion func(*eviction.Candidate) rating

// by returns an order by the first of the criteria in which two candidates differ.
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

// usage and usageOverRequest put pods without stats before the measured ones and pods with
// unknown usage after them.
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

// unmeasured returns a rating below all differences for NoStats, else one above them.
func unmeasured(c *eviction.Candidate) rating {
	if c.Measurement.State == eviction.NoStats {
		return rating{hi: math.MinInt64}
	}
	return rating{hi: math.MaxInt64}
}

// An amount returns a figure of a candidate in the signal's base unit.
type amount func(*eviction.Candidate) int64

// usageOf returns a measured candidate's usage for s. Both memory signals rank by the
// working set, so the figure of one stands in for that of the other.
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

// Used returns a measured candidate's usage for s as the kubelet's order compares it.
func Used(c *eviction.Candidate, s eviction.Signal) int64 { return usageOf(s)(c) }

// Request returns the request with which the kubelet's order compares the usage for s, in base
// units: 0 if there is none, as for inodes.
func Request(c *eviction.Candidate, s eviction.Signal) int64 { return requestOf(s)(c) }

// Subtracted returns what the kubelet's order subtracts from the usage for s: the request and,
// for inodes, the request for ephemeral storage, which is in bytes.
func Subtracted(c *eviction.Candidate, s eviction.Signal) int64 { return subtractedFor(s)(c) }

// requestOf returns a candidate's request for the resource of s, 0 if that resource
// cannot be requested.
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

// subtractedFor is like requestOf, but returns the request for ephemeral storage for inodes too.
func subtractedFor(s eviction.Signal) amount {
	if d, _ := eviction.Builtin(s); d.Condition == eviction.DiskPressure {
		return func(c *eviction.Candidate) int64 { return c.Pod.EphemeralStorageRequestBytes }
	}
	return requestOf(s)
}
