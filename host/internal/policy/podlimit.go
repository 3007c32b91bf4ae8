package policy

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// podStorageLimit returns how much ephemeral storage the containers of pod may
// use together, or nil if none has a limit: the sum of containers and sidecars,
// at least what an init container may use beside the sidecars that are started
// before it. Overhead is added to what is not zero. Limits at pod level do not
// exist for storage. It is component-helpers' PodLimits for one resource; the
// tests compare them. Terms are added in the same order, because the first that
// is not zero decides how the sum prints.
func podStorageLimit(pod *v1.Pod) *resource.Quantity {
	var running, sidecars, starting *resource.Quantity
	for i := range pod.Spec.Containers {
		running = sum(running, storageLimit(&pod.Spec.Containers[i]))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		limit := storageLimit(c)
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			running = sum(running, limit)
			sidecars = sum(sidecars, limit)
			limit = sidecars
		} else {
			limit = sum(limit, sidecars)
		}
		starting = larger(starting, limit)
	}
	total := larger(running, starting)
	if overhead, ok := pod.Spec.Overhead[v1.ResourceEphemeralStorage]; ok && total != nil && !total.IsZero() {
		total = sum(total, &overhead)
	}
	return total
}

// storageLimit returns nil if c has no limit. It may have one of 0.
func storageLimit(c *v1.Container) *resource.Quantity {
	if limit, ok := c.Resources.Limits[v1.ResourceEphemeralStorage]; ok {
		return &limit
	}
	return nil
}

// sum changes neither a nor b. Nil is not there, rather than 0.
func sum(a, b *resource.Quantity) *resource.Quantity {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	total := a.DeepCopy()
	total.Add(*b)
	return &total
}

// larger prefers a if they are equal.
func larger(a, b *resource.Quantity) *resource.Quantity {
	if a == nil || b != nil && b.Cmp(*a) > 0 {
		return b
	}
	return a
}
