package victim

import (
	"errors"
	"math"
	"time"
)

// ErrTimeout is a kill that took longer than Timeout. The pod may still end; the
// kubelet records ReasonExceededGracePeriod for it.
var ErrTimeout = errors.New("timeout waiting to kill pod")

// minTimeout is how long even a short kill may take.
const minTimeout = 10 * time.Second

// Timeout is how long a kill may take: half as long again as the grace period,
// so that the SIGKILL at its end has time to work, and at least 10 s.
func Timeout(graceSeconds int64) time.Duration {
	// Beyond a century the figure is nonsense and would overflow.
	const century = 100 * 365 * 24 * 60 * 60
	grace := time.Duration(min(graceSeconds, century)) * time.Second
	return max(minTimeout, grace+grace/2)
}

// effectiveGrace is the grace period in seconds that the kubelet kills with: the shorter
// of metadata.deletionGracePeriodSeconds and what the eviction asks for, the pod's own of
// the spec if neither is given, and never less than 1. As there, 0 means not given. Beyond
// 68 years is no more.
func effectiveGrace(deletion, override, spec *int64) int64 {
	var shortest int64
	for _, limit := range []*int64{deletion, override} {
		if limit != nil && (shortest == 0 || *limit < shortest) {
			shortest = *limit
		}
	}
	if shortest == 0 && spec != nil {
		shortest = *spec
	}
	return min(max(shortest, 1), math.MaxInt32)
}
