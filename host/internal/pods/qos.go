package pods

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// QoSClass is the recorded class of the pod, else the computed one. Resources at
// pod level, when there are any, decide alone; else a pod is Guaranteed or
// BestEffort only if all its containers, init containers included, are.
func QoSClass(pod *v1.Pod) eviction.QoSClass {
	if pod.Status.QOSClass != "" {
		return eviction.QoSClass(pod.Status.QOSClass)
	}
	if pod.Spec.Resources != nil {
		return qosOf(pod.Spec.Resources)
	}
	var class eviction.QoSClass
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			of := qosOf(&containers[i].Resources)
			if class != "" && class != of {
				return eviction.Burstable
			}
			class = of
		}
	}
	if class == "" {
		return eviction.BestEffort
	}
	return class
}

// qosOf is the class that one set of cpu and memory figures makes: nothing at
// all, both set with requests equal to limits, or anything else.
func qosOf(r *v1.ResourceRequirements) eviction.QoSClass {
	set := 0
	names := [...]v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory}
	for _, name := range names {
		request, limit := r.Requests[name], r.Limits[name]
		if request.Cmp(limit) != 0 {
			return eviction.Burstable
		}
		if !request.IsZero() {
			set++
		}
	}
	switch set {
	case 0:
		return eviction.BestEffort
	case len(names):
		return eviction.Guaranteed
	default:
		return eviction.Burstable
	}
}
