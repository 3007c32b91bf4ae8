package pods

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// QoSClass is the recorded class of the pod, else the computed one (ComputePodQOS
// of the kubelet). Resources at pod level, when there are any, decide alone; else
// a pod is BestEffort only if all its containers are, init containers included,
// and Guaranteed only if each has limits of cpu and memory and together they
// request just that.
func (r Rules) QoSClass(pod *v1.Pod) eviction.QoSClass {
	if pod.Status.QOSClass != "" {
		return eviction.QoSClass(pod.Status.QOSClass)
	}
	if r.PodLevelResources && pod.Spec.Resources != nil {
		return classOf(pod.Spec.Resources)
	}
	all := make([]*v1.ResourceRequirements, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			all = append(all, &containers[i].Resources)
		}
	}
	return classOf(all...)
}

// classOf is the class that sets of figures make together. Of them only cpu and
// memory count, and only what is above zero.
func classOf(all ...*v1.ResourceRequirements) eviction.QoSClass {
	nothing, guaranteed := true, len(all) > 0
	for _, name := range [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		var requested, limit resource.Quantity
		for _, r := range all {
			request := r.Requests[name]
			if request.Sign() > 0 {
				requested.Add(request)
			}
			most := r.Limits[name]
			if most.Sign() > 0 {
				limit.Add(most)
			} else {
				guaranteed = false
			}
		}
		nothing = nothing && requested.IsZero() && limit.IsZero()
		guaranteed = guaranteed && requested.Cmp(limit) == 0
	}
	switch {
	case nothing:
		return eviction.BestEffort
	case guaranteed:
		return eviction.Guaranteed
	default:
		return eviction.Burstable
	}
}
