package host

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/kernelkills"
	"github.com/evictd/evictd/host/internal/record/reason"
	"github.com/evictd/evictd/shared/eviction"
)

// reasonKernel is the reason of the event about a pod of which the kernel has killed processes.
const reasonKernel = "KernelOOMKill"

// kernelKills names the pods of kernel kills, and tells of them in events and metrics.
type kernelKills struct {
	m     *Manager
	watch *kernelkills.Watch

	mu sync.Mutex
	// listed and before have the pods of the last two listings by uid: one that was killed may have ended.
	listed, before map[string]pods.Pod
}

// Moved implements recorder.KernelKills.
func (k *kernelKills) Moved() bool { return k.watch.Moved() }

// Look implements recorder.KernelKills.
func (k *kernelKills) Look(ctx context.Context, calm bool) (all []*decision.Decision, err error) {
	kills, err := k.watch.Look(calm)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	if len(kills) > 0 {
		_, _ = k.active(ctx) // else those of the last listing
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, kill := range kills {
		d := &decision.Decision{ByOthers: decision.ByOthers{By: "the kernel", Kernel: &decision.Kernel{
			Scope: kill.Scope, LimitBytes: kill.LimitBytes, Container: kill.ContainerID, Processes: kill.Processes,
		}}}
		k.m.metrics.KernelKilled(kill.Scope, 1)
		if kill.PodUID == "" {
			d.Reason = reason.Killed(d.Kernel) + " outside of pods, or of a pod that is gone"
			all = append(all, d)
			continue
		}
		d.Victim = &decision.Victim{UID: kill.PodUID, Pod: kill.PodUID, Signal: string(eviction.MemoryAvailable)}
		pod, known := k.listed[kill.PodUID]
		if !known {
			pod, known = k.before[kill.PodUID]
		}
		if known {
			d.Victim.Pod, d.Victim.Owner = pod.String(), pods.OwnerOf(pod.API)
			d.Kernel.Container, d.Kernel.RequestBytes = containerOf(&pod, kill.ContainerID), &pod.Row.MemoryRequestBytes
			if kill.Scope == decision.ScopeContainer && kill.LimitBytes == 0 { // it is gone
				d.Kernel.LimitBytes = limitOf(&pod, d.Kernel.Container)
			}
		}
		d.Victim.Message = reason.Kernel(d.Kernel)
		if known {
			k.m.recorder.PodEvent(pod, v1.EventTypeWarning, reasonKernel, d.Victim.Message, nil)
		}
		all = append(all, d)
	}
	return all, nil
}

// active lists the pods that run.
func (k *kernelKills) active(ctx context.Context) (pods.Snapshot, error) {
	s, err := k.m.pods.Active(ctx)
	if err != nil {
		return s, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.before, k.listed = k.listed, make(map[string]pods.Pod, len(s.Pods))
	for _, pod := range s.Pods {
		k.listed[pod.Row.UID] = pod
	}
	return s, nil
}

// containerOf returns the name of a container of a pod, else its id, or the name of the only one.
func containerOf(pod *pods.Pod, id string) string {
	for _, c := range pod.Row.Containers {
		if c.ID == id && id != "" {
			return c.Name
		}
	}
	if len(pod.API.Spec.Containers) == 1 {
		return pod.API.Spec.Containers[0].Name
	}
	return id
}

// limitOf returns the memory limit of a container by the manifest, 0 if there is none.
func limitOf(pod *pods.Pod, container string) int64 {
	for i := range pod.API.Spec.Containers {
		if c := &pod.API.Spec.Containers[i]; c.Name == container {
			return c.Resources.Limits.Memory().Value()
		}
	}
	return 0
}
