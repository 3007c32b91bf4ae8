package pods

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestRequests(t *testing.T) {
	for name, c := range map[string]struct {
		spec v1.PodSpec
		want map[v1.ResourceName]int64
	}{
		"nothing":                          {want: map[v1.ResourceName]int64{}},
		"cpu is in thousandths":            {v1.PodSpec{Containers: []v1.Container{requests("cpu", "1500m"), requests("cpu", "2")}}, map[v1.ResourceName]int64{"cpu": 3500}},
		"a smaller part of cpu rounds up":  {v1.PodSpec{Containers: []v1.Container{requests("cpu", "100u")}}, map[v1.ResourceName]int64{"cpu": 1}},
		"every resource that is requested": {v1.PodSpec{Containers: []v1.Container{requests("memory", "1Mi", "acme.example/gpu", "2")}}, map[v1.ResourceName]int64{"memory": mi, "acme.example/gpu": 2}},
		"a large init container is the minimum, of each resource": {
			v1.PodSpec{Containers: []v1.Container{requests("cpu", "1", "memory", "9Mi")}, InitContainers: []v1.Container{requests("cpu", "3", "memory", "1Mi")}},
			map[v1.ResourceName]int64{"cpu": 3000, "memory": 9 * mi},
		},
		"overhead is added to what is requested only": {
			v1.PodSpec{Containers: []v1.Container{requests("cpu", "1", "memory", "0")}, Overhead: list("cpu", "250m", "memory", "1Mi", "ephemeral-storage", "1Mi")},
			map[v1.ResourceName]int64{"cpu": 1250, "memory": 0},
		},
		"the pod level counts alone": {
			v1.PodSpec{Containers: []v1.Container{requests("cpu", "1", "memory", "1Mi", "acme.example/gpu", "2")}, Resources: &v1.ResourceRequirements{Requests: list("cpu", "2")}},
			map[v1.ResourceName]int64{"cpu": 2000},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &v1.Pod{Spec: c.spec}
			before := pod.DeepCopy()
			if diff := cmp.Diff(c.want, kubelets.Requests(pod)); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, pod); diff != "" {
				t.Errorf("the pod was changed:\n%s", diff)
			}
		})
	}
}
