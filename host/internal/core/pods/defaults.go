package pods

import (
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// SetDefaults applies the API server's defaults that affect decisions
// (pkg/apis/core/v1/defaults.go:SetDefaults_Pod). Every reader of pods that are not from the API server
// calls it: they may be written by hand.
func SetDefaults(pod *v1.Pod) {
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace == nil {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(v1.DefaultTerminationGracePeriodSeconds))
	} else if *grace < 0 {
		pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
	}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			// A resource with a limit and no request gets the limit as request.
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				request(r, name, limit)
			}
		}
	}
	defaultPodRequests(pod)
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.VolumeSource == (v1.VolumeSource{}) {
			v.EmptyDir = &v1.EmptyDirVolumeSource{}
		}
	}
}

// defaultPodRequests completes the requests of a pod with limits at pod level: from its containers'
// requests if any, else from the limit.
func defaultPodRequests(pod *v1.Pod) {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return
	}
	ofContainers := resource.AggregateContainerRequests(pod, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if q, ok := ofContainers[name]; ok {
			request(r, name, q)
		}
	}
	for name, limit := range r.Limits {
		request(r, name, limit)
	}
}

// request sets the request of r for a resource that has none.
func request(r *v1.ResourceRequirements, name v1.ResourceName, q quantity.Quantity) {
	if _, ok := r.Requests[name]; ok {
		return
	}
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	r.Requests[name] = q.DeepCopy()
}
