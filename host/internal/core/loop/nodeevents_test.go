package loop

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Beside a kubelet the event said that the node has insufficient memory, while its condition was False.
func TestSeenEvent(t *testing.T) {
	of := func(s eviction.Signal) policy.Observed {
		return policy.Observed{Threshold: policy.Threshold{Signal: s, Value: policy.Value{Quantity: resource.MustParse("1Gi")}}}
	}
	a := policy.Assessment{Observed: []policy.Observed{of(eviction.NodeFsAvailable), of(eviction.MemoryAvailable)}}
	seen := map[eviction.Signal]eviction.Observation{eviction.MemoryAvailable: {Available: 900 << 20}}
	for _, c := range []struct {
		condition       eviction.Condition
		status          bool
		reason, message string
	}{
		{eviction.MemoryPressure, true, "MemoryPressureObserved", "evictd sees MemoryPressure: memory.available 900Mi, below 1Gi"},
		{eviction.MemoryPressure, false, "MemoryPressureNotObserved", "evictd does not see MemoryPressure any more"},
		{"acme.example/NVMePressure", true, "NVMePressureObserved", "evictd sees acme.example/NVMePressure"},
	} {
		if reason, message := SeenEvent(c.condition, c.status, a, seen); reason != c.reason || message != c.message {
			t.Errorf("event is %s %q, want %s %q", reason, message, c.reason, c.message)
		}
	}
}
