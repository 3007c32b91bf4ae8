package victim

import (
	"cmp"
	"errors"
	"math"
	"time"
)

// ErrTimeout is a kill that took longer than Timeout. The pod may still end; the
// kubelet records ReasonExceededGracePeriod for it.
var ErrTimeout = errors.New("timeout waiting to kill pod")

// minTimeout is the least time that a kill gets.
const minTimeout = 10 * time.Second

// Timeout returns the time that a kill gets: half as long again as the grace period, so that the
// SIGKILL at its end has time to work, and at least 10 s.
func Timeout(graceSeconds int64) time.Duration {
	// Beyond a century the figure is nonsense and would overflow.
	const century = 100 * 365 * 24 * 60 * 60
	grace := time.Duration(min(graceSeconds, century)) * time.Second
	return max(minTimeout, grace+grace/2)
}

// EffectiveGrace returns the grace period in seconds that a kubelet kills with
// (calculateEffectiveGracePeriod in its pod_workers.go): the shorter of
// metadata.deletionGracePeriodSeconds and what the eviction asks for, the spec's only if
// neither is given, and at least 1. An override of 0 is given; a deletion grace of 0 is
// replaced by a longer override, as there. More than 68 years is cut to that.
func EffectiveGrace(deletion, override, spec *int64) int64 {
	grace := cmp.Or(deletion, override, spec, new(int64))
	if deletion != nil && override != nil && (*deletion == 0 || *override < *deletion) {
		grace = override
	}
	return min(max(*grace, 1), math.MaxInt32)
}
