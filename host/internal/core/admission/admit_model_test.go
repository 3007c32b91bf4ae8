package admission

import (
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/evictd/evictd/shared/eviction"
)

// TestTolerationsAreThoseOfKubernetes compares with the API's own matching, as
// the kubelet calls it.
func TestTolerationsAreThoseOfKubernetes(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 36))
	taint := &v1.Taint{Key: v1.TaintNodeMemoryPressure, Effect: v1.TaintEffectNoSchedule}
	admitted := 0
	for range 5000 {
		toleration := v1.Toleration{
			Key:      pick(r, "", v1.TaintNodeMemoryPressure, v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure),
			Operator: pick(r, "", v1.TolerationOpEqual, v1.TolerationOpExists, v1.TolerationOpLt, v1.TolerationOpGt, "Other"),
			Value:    pick(r, "", "", "0", "true"),
			Effect:   pick(r, "", v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule),
		}
		pod := &v1.Pod{Spec: v1.PodSpec{Tolerations: []v1.Toleration{toleration}}}
		want := toleration.ToleratesTaint(klog.Background(), taint, false)
		got := Admit(pod, eviction.BestEffort, []eviction.Condition{eviction.MemoryPressure})
		if got.Admit != want {
			t.Fatalf("admitted with %+v: %v, want %v", toleration, got.Admit, want)
		}
		if got.Admit {
			admitted++
		}
	}
	if admitted < 500 {
		t.Errorf("only %d admitted, too few to tell", admitted)
	}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
