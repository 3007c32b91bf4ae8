package figures

import (
	"math"

	"github.com/evictd/evictd/shared/eviction"
)

// Parts are the parts of a pod that count for a signal: those on its filesystem.
type Parts struct {
	// Rootfs are writable layers.
	Rootfs bool
	Logs   bool
	// Volumes are the volumes with CountsForRanking.
	Volumes bool
}

// PartsOf returns the parts that count for a signal of a filesystem (podDiskUsage). On a filesystem
// that has only images nothing counts: the kubelet has no figure of the images that a pod uses.
func PartsOf(signal eviction.Signal, layout eviction.Layout) Parts {
	b, _ := eviction.Builtin(signal)
	switch {
	case layout == eviction.LayoutShared, layout == eviction.LayoutContainerFs && b.Filesystem != eviction.ImageFs:
		return Parts{Rootfs: true, Logs: true, Volumes: true}
	case layout == eviction.LayoutImageFs && b.Filesystem == eviction.NodeFs:
		return Parts{Logs: true, Volumes: true}
	case layout == eviction.LayoutImageFs:
		return Parts{Rootfs: true}
	default:
		return Parts{}
	}
}

// Add adds two figures and saturates at the limits of int64. The kubelet adds quantities of
// unlimited size.
func Add(a, b int64) int64 {
	switch sum := a + b; {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	default:
		return sum
	}
}
