package cri

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// setDefaults fills in what the API server would have: manifests in a directory
// may be written by hand, and the kubelet never decides on a pod without these.
// Only defaults that a decision can depend on are set.
func setDefaults(pod *v1.Pod) {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		grace := int64(v1.DefaultTerminationGracePeriodSeconds)
		pod.Spec.TerminationGracePeriodSeconds = &grace
	}
	for i := range pod.Spec.InitContainers {
		defaultRequests(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		defaultRequests(&pod.Spec.Containers[i].Resources)
	}
	defaultPodRequests(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

// defaultRequests: who limits a resource and requests nothing requests the limit.
func defaultRequests(r *v1.ResourceRequirements) {
	for name, limit := range r.Limits {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		r.Requests[name] = limit.DeepCopy()
	}
}

// defaultPodRequests completes the requests of a pod that has limits at pod
// level: from its containers where they request anything, else from the limit.
func defaultPodRequests(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	ofContainers := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if _, ok := r.Requests[name]; ok {
			continue
		}
		request, ok := ofContainers[name]
		if !ok {
			if request, ok = r.Limits[name]; !ok {
				continue
			}
		}
		if r.Requests == nil {
			r.Requests = v1.ResourceList{}
		}
		r.Requests[name] = request.DeepCopy()
	}
}
