package pods

import (
	v1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
)

// Request is what the pod requests of a resource by the kubelet's rule for
// eviction (pkg/api/v1/resource GetResourceRequestQuantity): the sum of its
// containers and sidecars, at least what an init container needs. With any
// resource at pod level only the pod level counts, so that such a pod requests
// no ephemeral storage. Overhead is added to what is not zero.
//
// The spec alone counts, never the status: of a pod that is being resized the
// pod source passes the spec with what is allocated.
func (r Rules) Request(pod *v1.Pod, name v1.ResourceName) int64 {
	q := withOverhead(pod, name, r.withoutOverhead(pod)[name])
	return q.Value()
}

// Requests are what the pod requests of everything, by the rule of Request and
// in the units in which the kubelet admits pods: cpu in thousandths, everything
// else whole (GetResourceRequest).
func (r Rules) Requests(pod *v1.Pod) map[v1.ResourceName]int64 {
	requests := r.withoutOverhead(pod)
	all := make(map[v1.ResourceName]int64, len(requests))
	for name, q := range requests {
		q = withOverhead(pod, name, q)
		if name == v1.ResourceCPU {
			all[name] = q.MilliValue()
		} else {
			all[name] = q.Value()
		}
	}
	return all
}

func (r Rules) withoutOverhead(pod *v1.Pod) v1.ResourceList {
	return resource.PodRequests(pod, resource.PodResourcesOptions{
		SkipContainerLevelResources: r.PodLevelResources && resource.IsPodLevelResourcesSet(pod),
		ExcludeOverhead:             true,
	})
}

func withOverhead(pod *v1.Pod, name v1.ResourceName, q quantity.Quantity) quantity.Quantity {
	if overhead, ok := pod.Spec.Overhead[name]; ok && !q.IsZero() {
		q = q.DeepCopy()
		q.Add(overhead)
	}
	return q
}
