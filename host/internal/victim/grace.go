package victim

import (
	"errors"
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

// Grace is what the grace period of a kill depends on; all in seconds.
type Grace struct {
	// Deletion is metadata.deletionGracePeriodSeconds.
	Deletion *int64
	// Override is what the eviction asks for.
	Override *int64
	// Spec is spec.terminationGracePeriodSeconds.
	Spec *int64
}

// Effective is the grace period that the kubelet kills with: the shorter of the
// deletion's and the override, the pod's own if neither is given, and never less
// than 1. As there, 0 means not given.
func (g Grace) Effective() int64 {
	var shortest int64
	for _, limit := range []*int64{g.Deletion, g.Override} {
		if limit != nil && (shortest == 0 || *limit < shortest) {
			shortest = *limit
		}
	}
	if shortest == 0 && g.Spec != nil {
		shortest = *g.Spec
	}
	return max(shortest, 1)
}
