package gc

import (
	"math"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// The runtime's figures are not believed to be small: they and their sums end at
// the ends of int64.

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func sum(a, b eviction.Reclaimed) eviction.Reclaimed {
	return eviction.Reclaimed{Bytes: summary.Add(a.Bytes, b.Bytes), Inodes: summary.Add(a.Inodes, b.Inodes)}
}
