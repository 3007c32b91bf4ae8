package eviction_test

import (
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// The host, the conformance suite and the protocol had three rules.
func TestTheTimesThatASampleMayHave(t *testing.T) {
	for age, good := range map[time.Duration]bool{
		0: true, time.Minute + time.Second: true, eviction.MaxSampleAge: true, -eviction.MaxSampleAhead: true,
		eviction.MaxSampleAge + 1: false, -eviction.MaxSampleAhead - 1: false, 1<<63 - 1: false, -1 << 63: false,
	} {
		if err := eviction.CheckSampleAge(age); (err == nil) != good {
			t.Errorf("%v old: %v, want it good: %v", age, err, good)
		}
	}
}
