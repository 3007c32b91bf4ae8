// Package figures has what package nodefs reads of a node in the words of package
// eviction: observations, and measurements of pods. The built-in plugins have it from
// here, and the host when a plugin is gone, so that both say the same of the same node.
//
// When something is read, and what follows from it, is their matter.
package figures

import (
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// At is an observation of s that is about to be made: what is read for it is newer.
func At(s eviction.Signal) eviction.Observation {
	return eviction.Observation{Signal: s, Time: time.Now(), BootNanos: nodefs.BootNanos()}
}

// Memory is o with what a gauge of memory has read. Without a limit there is no figure,
// as in the kubelet, and none of all pods as long as they have no cgroup.
func Memory(o eviction.Observation, m nodefs.MemorySample, err error) eviction.Observation {
	switch {
	case errors.Is(err, nodefs.ErrGone) && o.Signal == eviction.AllocatableMemoryAvailable, err == nil && !m.Limited:
		o.State = eviction.Absent
	case err != nil:
		o.Err = err.Error()
	default:
		o.State, o.Available, o.Capacity = eviction.Observed, m.AvailableBytes, m.CapacityBytes
		o.Components = append(make([]eviction.Component, 0, 5),
			eviction.Component{Name: "limit", Value: m.CapacityBytes},
			eviction.Component{Name: "usage", Value: m.UsageBytes},
			eviction.Component{Name: "inactive_file", Value: m.InactiveFileBytes},
			eviction.Component{Name: "working_set", Value: m.WorkingSetBytes()})
		if m.Capped {
			o.Components = append(o.Components, eviction.Component{Name: "mem_available", Value: m.MemAvailableBytes})
		}
	}
	return o
}

// PIDs is o with what was read of the tasks of the node and of all pods.
func PIDs(o eviction.Observation, s nodefs.PIDSample, err error) eviction.Observation {
	if err != nil {
		o.Err = err.Error()
		return o
	}
	o.State, o.Available, o.Capacity = eviction.Observed, s.Available(), s.Max()
	o.Components = []eviction.Component{
		{Name: "pid_max", Value: s.PIDMax},
		{Name: "threads_max", Value: s.ThreadsMax},
		{Name: "running", Value: s.Running},
	}
	if s.PodsMax > 0 {
		o.Components = append(o.Components, eviction.Component{Name: "pods_max", Value: s.PodsMax}, eviction.Component{Name: "pods_running", Value: s.PodsRunning})
	}
	return o
}

// MostComponents bounds the components of an observation of a filesystem.
const MostComponents = 4

// Filesystem is o with what was read of its filesystem, whose name comes first if it is
// not empty. One that counts no inodes (btrfs), or has no size, has no figure; the kubelet
// takes 0 of 0 for one. The components are put where o has room for them.
func Filesystem(o eviction.Observation, name string, s nodefs.FilesystemSample, err error) eviction.Observation {
	if err != nil {
		o.Err = err.Error()
		return o
	}
	b, _ := eviction.Builtin(o.Signal)
	inodes := b.Unit == eviction.UnitInodes
	available, capacity := s.AvailableBytes, s.CapacityBytes
	if inodes {
		available, capacity = s.InodesFree, s.Inodes
	}
	if capacity == 0 {
		o.State = eviction.Absent
		return o
	}
	o.State, o.Available, o.Capacity = eviction.Observed, available, capacity
	o.Components = slices.Grow(o.Components, MostComponents)
	if name != "" {
		o.Components = append(o.Components, eviction.Component{Name: name, Value: capacity})
	}
	if inodes {
		o.Components = append(o.Components, eviction.Component{Name: "used", Value: s.Inodes - s.InodesFree})
		return o
	}
	o.Components = append(o.Components,
		eviction.Component{Name: "used", Value: s.CapacityBytes - s.FreeBytes},
		eviction.Component{Name: "free", Value: s.FreeBytes},
		eviction.Component{Name: "reserved", Value: s.FreeBytes - s.AvailableBytes})
	return o
}

// PodMemory reads the working set of a pod.
func PodMemory(from *nodefs.PodCgroups[nodefs.MemoryUse], pod *eviction.Pod, b *nodefs.Buffer) eviction.Measurement {
	m, use := read(from, pod, b)
	if m.State == eviction.Measured {
		m.WorkingSetBytes = eviction.Some(use.WorkingSetBytes())
	}
	return m
}

// PodTasks reads how many tasks a pod has.
func PodTasks(from *nodefs.PodCgroups[int64], pod *eviction.Pod, b *nodefs.Buffer) eviction.Measurement {
	m, tasks := read(from, pod, b)
	if m.State == eviction.Measured {
		m.Processes = eviction.Some(tasks)
	}
	return m
}

// read reads a pod's figure. Whose cgroup is not there has none, unless it runs.
func read[T any](from *nodefs.PodCgroups[T], pod *eviction.Pod, b *nodefs.Buffer) (m eviction.Measurement, figure T) {
	m.UID, m.Time = pod.UID, time.Now()
	figure, err := from.Read(pod.UID, string(pod.QoSClass), b)
	switch {
	case err == nil:
		m.State = eviction.Measured
	case errors.Is(err, nodefs.ErrGone) && !pod.Running:
		m.State = eviction.NoStats
	default:
		m.Err = err.Error()
	}
	return m, figure
}
