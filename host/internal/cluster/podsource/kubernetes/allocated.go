package kubernetes

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// allocated returns a copy of pod that requests the resources allocated by the kubelet: a pod that is
// being resized has these and no others.
func allocated(api *v1.Pod) *v1.Pod {
	pod := new(*api)
	pod.Spec.InitContainers, pod.Spec.Containers = slices.Clone(api.Spec.InitContainers), slices.Clone(api.Spec.Containers)
	of := func(containers []v1.Container, statuses []v1.ContainerStatus) {
		for i := range containers {
			for j := range statuses {
				if statuses[j].Name == containers[i].Name && len(statuses[j].AllocatedResources) > 0 {
					containers[i].Resources.Requests = over(containers[i].Resources.Requests, statuses[j].AllocatedResources)
				}
			}
		}
	}
	of(pod.Spec.InitContainers, pod.Status.InitContainerStatuses)
	of(pod.Spec.Containers, pod.Status.ContainerStatuses)
	if pod.Spec.Resources != nil && len(pod.Status.AllocatedResources) > 0 {
		own := *pod.Spec.Resources
		own.Requests = maps.Clone(own.Requests)
		for name := range own.Requests {
			if all, ok := pod.Status.AllocatedResources[name]; ok { // includes the pod's overhead and the requests of its containers
				all = all.DeepCopy()
				all.Sub(pod.Spec.Overhead[name])
				own.Requests[name] = all
			}
		}
		pod.Spec.Resources = &own
	}
	return pod
}

// over returns requests, replaced by allocated resources where there are any.
func over(requests, allocated v1.ResourceList) v1.ResourceList {
	out := make(v1.ResourceList, len(requests)+len(allocated))
	maps.Copy(out, requests)
	maps.Copy(out, allocated)
	return out
}
