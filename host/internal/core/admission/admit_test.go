package admission

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func TestAdmit(t *testing.T) {
	tolerating := func(ts ...v1.Toleration) *v1.Pod { return &v1.Pod{Spec: v1.PodSpec{Tolerations: ts}} }
	const memoryKey, diskKey = v1.TaintNodeMemoryPressure, v1.TaintNodeDiskPressure
	const own eviction.Condition = "acme.example/NVMePressure"
	none := []eviction.Condition(nil)
	memory := []eviction.Condition{eviction.MemoryPressure}
	disk := []eviction.Condition{eviction.DiskPressure}
	both := []eviction.Condition{eviction.MemoryPressure, eviction.DiskPressure}
	plain := &v1.Pod{}
	all := tolerating(v1.Toleration{Operator: v1.TolerationOpExists})

	for name, c := range map[string]struct {
		pod        *v1.Pod
		class      eviction.QoSClass
		conditions []eviction.Condition
		rejected   string // what is between the brackets, "" if admitted
	}{
		"no pressure":                                  {plain, eviction.BestEffort, none, ""},
		"best effort under memory pressure":            {plain, eviction.BestEffort, memory, "MemoryPressure"},
		"burstable under memory pressure":              {plain, eviction.Burstable, memory, ""},
		"guaranteed under memory pressure":             {plain, eviction.Guaranteed, memory, ""},
		"guaranteed under disk pressure":               {plain, eviction.Guaranteed, disk, "DiskPressure"},
		"guaranteed under process pressure":            {plain, eviction.Guaranteed, []eviction.Condition{eviction.PIDPressure}, "PIDPressure"},
		"guaranteed under own pressure":                {plain, eviction.Guaranteed, []eviction.Condition{own}, string(own)},
		"burstable under memory and disk pressure":     {plain, eviction.Burstable, both, "DiskPressure MemoryPressure"},
		"critical under all pressure":                  {critical(&v1.Pod{}), eviction.BestEffort, append(both, own), ""},
		"a condition told twice is one":                {plain, eviction.Burstable, append(memory, memory...), ""},
		"tolerates all":                                {all, eviction.BestEffort, memory, ""},
		"disk pressure cannot be tolerated":            {all, eviction.Guaranteed, disk, "DiskPressure"},
		"nor can memory pressure beside it":            {all, eviction.BestEffort, both, "DiskPressure MemoryPressure"},
		"tolerates the key":                            {tolerating(v1.Toleration{Key: memoryKey, Operator: v1.TolerationOpExists}), eviction.BestEffort, memory, ""},
		"tolerates the effect":                         {tolerating(v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule}), eviction.BestEffort, memory, ""},
		"tolerates another effect":                     {tolerating(v1.Toleration{Key: memoryKey, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}), eviction.BestEffort, memory, "MemoryPressure"},
		"tolerates another key":                        {tolerating(v1.Toleration{Key: diskKey, Operator: v1.TolerationOpExists}), eviction.BestEffort, memory, "MemoryPressure"},
		"one of several tolerates":                     {tolerating(v1.Toleration{Key: diskKey}, v1.Toleration{Key: memoryKey}), eviction.BestEffort, memory, ""},
		"equal, which is the default, to no value":     {tolerating(v1.Toleration{Key: memoryKey, Operator: v1.TolerationOpEqual}), eviction.BestEffort, memory, ""},
		"equal to a value, which the taint lacks":      {tolerating(v1.Toleration{Key: memoryKey, Value: "true"}), eviction.BestEffort, memory, "MemoryPressure"},
		"exists, with a value that does not matter":    {tolerating(v1.Toleration{Key: memoryKey, Operator: v1.TolerationOpExists, Value: "x"}), eviction.BestEffort, memory, ""},
		"greater than, of a taint without a value":     {tolerating(v1.Toleration{Key: memoryKey, Operator: v1.TolerationOpGt, Value: "0"}), eviction.BestEffort, memory, "MemoryPressure"},
		"an operator that nobody knows tolerates none": {tolerating(v1.Toleration{Key: memoryKey, Operator: "Almost"}), eviction.BestEffort, memory, "MemoryPressure"},
	} {
		t.Run(name, func(t *testing.T) {
			want := Answer{Admit: true}
			if c.rejected != "" {
				want = Answer{Reason: "Evicted", Message: "The node had condition: [" + c.rejected + "]. "}
			}
			if diff := cmp.Diff(want, Admit(c.pod, c.class, c.conditions)); diff != "" {
				t.Errorf("admission (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdmitDoesNotReorderConditions(t *testing.T) {
	conditions := []eviction.Condition{eviction.PIDPressure, eviction.DiskPressure, eviction.PIDPressure}
	Admit(&v1.Pod{}, eviction.Burstable, conditions)
	if diff := cmp.Diff([]eviction.Condition{eviction.PIDPressure, eviction.DiskPressure, eviction.PIDPressure}, conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}
