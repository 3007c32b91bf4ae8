package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

func requests(of ...string) v1.ResourceRequirements {
	r := v1.ResourceRequirements{Requests: v1.ResourceList{}}
	for i := 0; i < len(of); i += 2 {
		r.Requests[v1.ResourceName(of[i])] = resource.MustParse(of[i+1])
	}
	return r
}

func TestMessage(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "side"}},
		Containers: []v1.Container{
			{Name: "main", Resources: requests("memory", "100Mi", "ephemeral-storage", "1G")},
			{Name: "two"},
			{Name: "modest", Resources: requests("memory", "1Gi")},
		},
	}}
	podLevel := pod.DeepCopy()
	podLevel.Spec.Resources = new(requests("memory", "2Gi"))
	mib := func(n int64) eviction.Figure { return eviction.Some(n << 20) }
	measured := eviction.Measurement{State: eviction.Measured, WorkingSetBytes: mib(900), Containers: []eviction.ContainerMeasurement{
		{Name: "main", WorkingSetBytes: mib(700), RootfsUsedBytes: mib(900), LogsUsedBytes: mib(200)},
		{Name: "side", WorkingSetBytes: mib(300), RootfsUsedBytes: mib(1)},
		{Name: "gone", WorkingSetBytes: mib(5000)},
		{Name: "two", WorkingSetBytes: mib(400), RootfsUsedBytes: mib(0), LogsUsedBytes: mib(0)},
		{Name: "modest", WorkingSetBytes: mib(1024)},
	}}
	const low = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 512Mi. "
	const containers = "Container main was using 700Mi, request is 100Mi, has larger consumption of memory. " +
		"Container side was using 300Mi, request is 0, has larger consumption of memory. " +
		"Container two was using 400Mi, request is 0, has larger consumption of memory. "

	for name, c := range map[string]struct {
		signal              eviction.Signal
		value               string
		available, capacity int64
		pod                 *v1.Pod
		measurement         eviction.Measurement
		want                string
		annotations         map[string]string
	}{
		"containers above their request, in the order of the stats": {
			"memory.available", "1Gi", 512 << 20, 8 << 30, pod, measured, low + containers,
			map[string]string{"offending_containers": "main,side,two", "offending_containers_usage": "700Mi,300Mi,400Mi", "starved_resource": "memory"},
		},
		"pod-level resources, also below the request": {
			"memory.available", "1Gi", 512 << 20, 8 << 30, podLevel, measured,
			low + "Pod p was using 900Mi, request is 2Gi, has larger consumption of memory. " + containers,
			map[string]string{
				"offending_containers": "main,side,two", "offending_containers_usage": "700Mi,300Mi,400Mi",
				"offending_pod": "p", "offending_pod_usage": "900Mi", "starved_resource": "memory",
			},
		},
		"no stats, no annotations": {"memory.available", "1Gi", 512 << 20, 8 << 30, podLevel, eviction.Measurement{State: eviction.NoStats}, low, nil},
		"not measured":             {"memory.available", "1Gi", 512 << 20, 8 << 30, podLevel, eviction.Measurement{}, low, nil},
		"no containers": {
			"allocatableMemory.available", "1Gi", 512 << 20, 8 << 30, pod,
			eviction.Measurement{State: eviction.Measured},
			low,
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "memory"},
		},
		"disk counts writable layer and logs if both are known": {
			"imagefs.available", "10%", 5 << 30, 100 << 30, podLevel, measured,
			"The node was low on resource: ephemeral-storage. Threshold quantity: 10737418400, available: 5Gi. " +
				"Container main was using 1100Mi, request is 1G, has larger consumption of ephemeral-storage. ",
			map[string]string{"offending_containers": "main", "offending_containers_usage": "1100Mi", "starved_resource": "ephemeral-storage"},
		},
		"inodes print a percentage in powers of two, and no containers": {
			"nodefs.inodesFree", "50%", 1000, 131072, pod, measured,
			"The node was low on resource: inodes. Threshold quantity: 64Ki, available: 1k. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "inodes"},
		},
		"processes may be negative": {
			"pid.available", "100", -5, 32768, pod, measured,
			"The node was low on resource: pids. Threshold quantity: 100, available: -5. ",
			map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "pids"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			thresholds, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{string(c.signal): c.value}})
			if err != nil {
				t.Fatal(err)
			}
			o := eviction.Observation{Signal: c.signal, State: eviction.Observed, Available: c.available, Capacity: c.capacity}
			text, annotations := Message(true, c.pod, thresholds[0], o, c.measurement)
			if diff := cmp.Diff(c.want, text); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.annotations, annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMessageWithoutPodLevelResources(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{
		Resources:  new(requests("memory", "2Gi")),
		Containers: []v1.Container{{Name: "main", Resources: requests("memory", "1Gi")}},
	}}
	o := eviction.Observation{State: eviction.Observed, Available: 0, Capacity: 8 << 30}
	m := eviction.Measurement{State: eviction.Measured, WorkingSetBytes: eviction.Some(900 << 20)}
	const low = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 0. "
	const whole = "Pod p was using 900Mi, request is 2Gi, has larger consumption of memory. "
	threshold := gib(eviction.MemoryAvailable, 1, 0)
	if text, annotations := Message(true, pod, threshold, o, m); text != low+whole || annotations["offending_pod"] != "p" {
		t.Errorf("with the gate: %q, %v", text, annotations)
	}
	if text, annotations := Message(false, pod, threshold, o, m); text != low || annotations["offending_pod"] != "" {
		t.Errorf("without the gate: %q, %v", text, annotations)
	}
}

func TestMessageOfAnOwnSignal(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: requests("memory", "1Gi", "ephemeral-storage", "1Gi")}}}}
	measured := eviction.Measurement{
		State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: spare, Value: 5000}}, WorkingSetBytes: eviction.Some(9 << 30),
		Containers: []eviction.ContainerMeasurement{{Name: "main", WorkingSetBytes: eviction.Some(9 << 30), RootfsUsedBytes: eviction.Some(9 << 30), LogsUsedBytes: eviction.Some(0)}},
	}
	for name, c := range map[string]struct {
		value               string
		format              eviction.Format
		available, capacity int64
		want                string
	}{
		"an amount prints as it was given, in its canonical form": {"4096", eviction.FormatDecimalSI, 3000, 100_000, "4096, available: 3k"},
		"with its suffix": {"4Ki", eviction.FormatDecimalSI, 3000, 100_000, "4Ki, available: 3k"},
		"a percentage prints in the signal's format":  {"10%", eviction.FormatDecimalSI, 3000, 131_072_000, "13107200, available: 3k"},
		"in powers of two where these are its format": {"10%", eviction.FormatBinarySI, 3 << 20, 100 << 30, "10737418400, available: 3Mi"},
		"half of a power of two":                      {"50%", eviction.FormatBinarySI, 3000, 131_072, "64Ki, available: 3000"},
		"half, in powers of ten":                      {"50%", eviction.FormatDecimalSI, -3, 128_000, "64k, available: -3"},
	} {
		t.Run(name, func(t *testing.T) {
			d := spareDefinition()
			d.Format = c.format
			thresholds, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{string(spare): c.value}}, spare)
			if err != nil {
				t.Fatal(err)
			}
			threshold := Define(thresholds, map[eviction.Signal]eviction.Definition{spare: d})[0]
			o := eviction.Observation{Signal: spare, State: eviction.Observed, Available: c.available, Capacity: c.capacity}
			text, annotations := Message(true, pod, threshold, o, measured)
			if want := "The node was low on resource: acme.example/nvme-spare. Threshold quantity: " + c.want + ". "; text != want {
				t.Errorf("message %q, want %q", text, want)
			}
			want := map[string]string{"offending_containers": "", "offending_containers_usage": "", "starved_resource": "acme.example/nvme-spare"}
			if diff := cmp.Diff(want, annotations); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if reason, message := NodeEvent(threshold); reason != "EvictionThresholdMet" || message != "Attempting to reclaim acme.example/nvme-spare" {
				t.Errorf("event is %s %q", reason, message)
			}
		})
	}
}

func TestConditionText(t *testing.T) {
	for c, want := range map[eviction.Condition][2]Text{
		eviction.MemoryPressure: {
			{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
			{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"},
		},
		eviction.DiskPressure: {
			{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
			{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"},
		},
		eviction.PIDPressure: {
			{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
			{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"},
		},
		"acme.example/NVMePressure": {
			{"EvictionThresholdMet", "an eviction threshold of acme.example/NVMePressure is met", "NodeHasNVMePressure"},
			{"EvictionThresholdNotMet", "no eviction threshold of acme.example/NVMePressure is met", "NodeHasNoNVMePressure"},
		},
		"acme.example/low-on.gpu_memory": {
			{"EvictionThresholdMet", "an eviction threshold of acme.example/low-on.gpu_memory is met", "NodeHasLowOnGpuMemory"},
			{"EvictionThresholdNotMet", "no eviction threshold of acme.example/low-on.gpu_memory is met", "NodeHasNoLowOnGpuMemory"},
		},
		"FormerPressure": { // from a file that nobody checks
			{"EvictionThresholdMet", "an eviction threshold of FormerPressure is met", "NodeHasFormerPressure"},
			{"EvictionThresholdNotMet", "no eviction threshold of FormerPressure is met", "NodeHasNoFormerPressure"},
		},
	} {
		if diff := cmp.Diff(want, [2]Text{ConditionText(c, true), ConditionText(c, false)}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c, diff)
		}
	}
}

func TestNodeEvent(t *testing.T) {
	reason, message := NodeEvent(gib(eviction.NodeFsAvailable, 1, 0))
	if reason != "EvictionThresholdMet" || message != "Attempting to reclaim ephemeral-storage" {
		t.Errorf("event is %s %q", reason, message)
	}
}
