// The setters of v1.35 take another function for events.
//go:build !kubernetes_1_35

package paritytest

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// setCondition is one of the kubelet's setters of node conditions.
type setCondition func(now func() time.Time, pressure func() bool, event func(logger klog.Logger, eventType, event string)) nodestatus.Setter

// Conditions read as the kubelet sets them, and the events of a plugin's own
// condition are made as those of the kubelet's that has its name.
func TestConditionsReadAsTheKubelets(t *testing.T) {
	for _, c := range []struct {
		condition eviction.Condition
		set       setCondition
		// own: the kubelet's events of it follow the pattern.
		own eviction.Condition
	}{
		{eviction.DiskPressure, nodestatus.DiskPressureCondition, "acme.example/DiskPressure"},
		{eviction.DiskPressure, nodestatus.DiskPressureCondition, "acme.example/disk-pressure"},
		{eviction.MemoryPressure, nodestatus.MemoryPressureCondition, ""},
		{eviction.PIDPressure, nodestatus.PIDPressureCondition, ""},
	} {
		node := &v1.Node{}
		for _, status := range []bool{true, false} {
			var event string
			set := c.set(time.Now, func() bool { return status }, func(_ klog.Logger, _, e string) { event = e })
			if err := set(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			got := policy.ConditionText(c.condition, status)
			if k := node.Status.Conditions[0]; got.Reason != k.Reason || got.Message != k.Message || got.EventReason != event {
				t.Errorf("%s %v: %+v, the kubelet has %s, %s and %s", c.condition, status, got, k.Reason, k.Message, event)
			}
			if c.own == "" {
				continue
			}
			got = policy.ConditionText(c.own, status)
			if got.EventReason != event || got.Reason == "" || got.Message == "" {
				t.Errorf("%s %v: %+v, want the event %s", c.own, status, got, event)
			}
		}
	}
}
