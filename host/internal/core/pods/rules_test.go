package pods

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// With the gate off the kubelet still takes requests at pod level first, for each
// resource on its own, and looks at containers for everything else.
func TestWithoutPodLevelResources(t *testing.T) {
	full := list("cpu", "1", "memory", "10Mi", "ephemeral-storage", "1Mi")
	guaranteed := v1.Container{Resources: v1.ResourceRequirements{Requests: full, Limits: full}}
	for name, c := range map[string]struct {
		podLevel          *v1.ResourceRequirements
		on, off           int64 // memory
		storage           int64 // ephemeral storage, gate off
		classOn, classOff eviction.QoSClass
	}{
		"none":          {nil, 10 * mi, 10 * mi, mi, eviction.Guaranteed, eviction.Guaranteed},
		"memory":        {&v1.ResourceRequirements{Requests: list("memory", "100Mi")}, 100 * mi, 100 * mi, mi, eviction.Burstable, eviction.Guaranteed},
		"cpu":           {&v1.ResourceRequirements{Requests: list("cpu", "2")}, 0, 10 * mi, mi, eviction.Burstable, eviction.Guaranteed},
		"a limit only":  {&v1.ResourceRequirements{Limits: list("memory", "1Gi")}, 0, 10 * mi, mi, eviction.Burstable, eviction.Guaranteed},
		"empty":         {&v1.ResourceRequirements{}, 10 * mi, 10 * mi, mi, eviction.BestEffort, eviction.Guaranteed},
		"storage, ever": {&v1.ResourceRequirements{Requests: list("ephemeral-storage", "5Mi")}, 10 * mi, 10 * mi, mi, eviction.BestEffort, eviction.Guaranteed},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{guaranteed}, Resources: c.podLevel}}
			with, without := kubelets.Row(pod, nil), Rules{}.Row(pod, nil)
			if with.MemoryRequestBytes != c.on || without.MemoryRequestBytes != c.off {
				t.Errorf("memory request %d, without the gate %d, want %d and %d", with.MemoryRequestBytes, without.MemoryRequestBytes, c.on, c.off)
			}
			if without.EphemeralStorageRequestBytes != c.storage {
				t.Errorf("ephemeral storage request %d, want %d", without.EphemeralStorageRequestBytes, c.storage)
			}
			if with.QoSClass != c.classOn || without.QoSClass != c.classOff {
				t.Errorf("class %s, without the gate %s, want %s and %s", with.QoSClass, without.QoSClass, c.classOn, c.classOff)
			}
			if got := (Rules{}).Requests(pod)["memory"]; got != c.off {
				t.Errorf("Requests has memory %d, want %d", got, c.off)
			}
		})
	}
}

// A pod that is being resized comes with its allocated resources in the spec;
// what its status says of them is never asked.
func TestTheStatusDoesNotChangeRequests(t *testing.T) {
	pod := &v1.Pod{
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list("memory", "10Mi")}}}},
		Status: v1.PodStatus{ContainerStatuses: []v1.ContainerStatus{{
			Name: "c", AllocatedResources: list("memory", "50Mi"), Resources: &v1.ResourceRequirements{Requests: list("memory", "90Mi")},
		}}},
	}
	if got := kubelets.Row(pod, nil).MemoryRequestBytes; got != 10*mi {
		t.Errorf("memory request %d, want that of the spec", got)
	}
}
