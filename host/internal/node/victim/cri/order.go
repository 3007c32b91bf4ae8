package cri

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
)

// A step is one container to stop.
type step struct {
	id string
	// of is the container in the manifest, nil if unknown.
	of *v1.Container
	// after lists the containers, by index of their steps, whose end this one waits for.
	after []int
}

// preStop returns the container's preStop hook, nil if it has none.
func (s step) preStop() *v1.LifecycleHandler {
	if s.of == nil || s.of.Lifecycle == nil {
		return nil
	}
	return s.of.Lifecycle.PreStop
}

// stepsOf returns how to stop the containers of a pod: all at once, except that sidecars stop after
// the main containers, in reverse order of their start. Containers that are not in the manifest
// have no hook, and no order.
func stepsOf(pod pods.Pod) []step {
	names := make(map[string]string, len(pod.Row.Containers))
	for _, c := range pod.Row.Containers {
		names[c.ID] = c.Name
	}
	places := placesOf(pod.API)
	steps := make([]step, len(pod.ContainerIDs))
	for i, id := range pod.ContainerIDs {
		at := places[names[id]]
		steps[i] = step{id: id, of: at.of}
		for j, other := range pod.ContainerIDs {
			if at.before(places[names[other]]) {
				steps[i].after = append(steps[i].after, j)
			}
		}
	}
	return steps
}

// A place locates a container in the manifest. The zero place means that it is not there.
type place struct {
	of *v1.Container
	// sidecar is the index among the init containers, from 1 on, 0 for a main container.
	sidecar int
}

// before reports whether a starts before b, and so may stop only after it.
func (a place) before(b place) bool {
	return a.sidecar > 0 && b.of != nil && (b.sidecar == 0 || b.sidecar > a.sidecar)
}

// placesOf returns the main containers and the sidecars of a pod, by name. Other init containers
// have ended before these start.
func placesOf(pod *v1.Pod) map[string]place {
	places := map[string]place{}
	if pod == nil {
		return places
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			places[c.Name] = place{of: c, sidecar: i + 1}
		}
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		places[c.Name] = place{of: c}
	}
	return places
}
