package policy

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// A plugin that was removed left its threshold met for good: a choice under way took a
// pod for it.
func TestAThresholdThatIsNoLongerObservedDoesNotStand(t *testing.T) {
	threshold := Threshold{Signal: eviction.MemoryAvailable, Value: Value{Quantity: resource.MustParse("100")}}
	below := eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: 50, Capacity: 1000}
	state, _ := Assess(State{}, Input{
		Now: time.Unix(1000, 0), Thresholds: []Threshold{threshold},
		Observations: map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: below},
	})
	if !state.Stands(threshold, below) {
		t.Error("a threshold that was observed to be met does not stand")
	}
	if state.Stands(threshold, eviction.Observation{}) {
		t.Error("a threshold stands although nobody observes its signal")
	}
}
