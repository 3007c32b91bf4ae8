package gc

import (
	"math"

	"github.com/evictd/evictd/shared/eviction"
)

// The runtime's figures are not believed to be small: they and their sums end at
// the ends of int64.

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func plus(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	default:
		return a + b
	}
}

func sum(a, b eviction.Reclaimed) eviction.Reclaimed {
	return eviction.Reclaimed{Bytes: plus(a.Bytes, b.Bytes), Inodes: plus(a.Inodes, b.Inodes)}
}
