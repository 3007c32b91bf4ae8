package gc

import (
	"math"

	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// The runtime's figures may be arbitrarily large: these functions saturate at the limits of int64.

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

func sum(a, b eviction.Reclaimed) eviction.Reclaimed {
	return eviction.Reclaimed{Bytes: summary.Add(a.Bytes, b.Bytes), Inodes: summary.Add(a.Inodes, b.Inodes)}
}
