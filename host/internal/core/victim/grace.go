package victim

import (
	"cmp"
	"errors"
	"math"
	"time"
)

// ErrTimeout reports a kill that took longer than Timeout. The pod may still end; the kubelet
// records ReasonExceededGracePeriod for it.
var ErrTimeout = errors.New("timeout waiting to kill pod")

// minTimeout is the shortest time limit of a kill.
const minTimeout = 10 * time.Second

// Timeout returns the time limit of a kill: one and a half times the grace period, so that the
// SIGKILL at its end can take effect, and at least 10 s.
func Timeout(graceSeconds int64) time.Duration {
	// Beyond a century the value is nonsense and would overflow.
	const century = 100 * 365 * 24 * 60 * 60
	grace := time.Duration(min(graceSeconds, century)) * time.Second
	return max(minTimeout, grace+grace/2)
}

// EffectiveGrace returns the grace period in seconds that a kubelet uses
// (calculateEffectiveGracePeriod in its pod_workers.go): the shorter of
// metadata.deletionGracePeriodSeconds and the eviction's override, the spec's only if both are nil,
// and at least 1. An override of 0 counts as set; like in the kubelet, a deletion grace of 0 yields
// to a longer override. The maximum is 68 years.
func EffectiveGrace(deletion, override, spec *int64) int64 {
	grace := cmp.Or(deletion, override, spec, new(int64))
	if deletion != nil && override != nil && (*deletion == 0 || *override < *deletion) {
		grace = override
	}
	return min(max(*grace, 1), math.MaxInt32)
}
