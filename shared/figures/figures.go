// Package figures converts what package nodefs reads of a node into observations and pod
// measurements of package eviction. The built-in plugins use it, and the host when a plugin
// is gone, so that both report the same for the same node.
//
// The callers decide when to read and what follows from the figures.
package figures

import (
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// At returns an observation of s without figures, with the current time: read the figures after.
func At(s eviction.Signal) eviction.Observation {
	return eviction.Observation{Signal: s, Time: time.Now(), BootNanos: nodefs.BootNanos()}
}

// HugePages is the component with the size of the pools of huge pages, where they are excluded.
const HugePages = "hugepages"

// Memory adds to o what a gauge of memory has read. Without a limit the signal is absent, as in
// the kubelet, and says so; that of all pods also while they have no cgroup.
func Memory(o eviction.Observation, m nodefs.MemorySample, err error) eviction.Observation {
	switch {
	case errors.Is(err, nodefs.ErrGone) && o.Signal == eviction.AllocatableMemoryAvailable:
		o.State = eviction.Absent
	case err == nil && !m.Limited:
		o.State, o.Err = eviction.Absent, "its cgroup has no memory limit"
	case err != nil:
		o.Err = err.Error()
	default:
		o.State, o.Available, o.Capacity = eviction.Observed, m.AvailableBytes, m.CapacityBytes
		o.Components = append(make([]eviction.Component, 0, 6), eviction.Component{Name: named(LimitOf, m.LimitOf, "limit"), Value: m.LimitBytes})
		if m.ImpossibleBytes > 0 {
			o.Components = append(o.Components, eviction.Component{Name: "impossible_usage", Value: m.ImpossibleBytes})
		} else {
			o.Components = append(o.Components,
				eviction.Component{Name: "usage", Value: m.UsageBytes},
				eviction.Component{Name: "inactive_file", Value: m.InactiveFileBytes},
				eviction.Component{Name: "working_set", Value: m.WorkingSetBytes()})
		}
		if m.HugePagesBytes > 0 {
			o.Components = append(o.Components, eviction.Component{Name: HugePages, Value: m.HugePagesBytes})
		}
		if m.HasMemAvailable {
			o.Components = append(o.Components, eviction.Component{Name: "mem_available", Value: m.MemAvailableBytes})
		}
	}
	return o
}

// BothMemory returns memory.available as a kubelet counts it and MemAvailable, by the components of an observation; false if it
// does not have the components of both.
func BothMemory(capacity int64, components map[string]int64) (kubelet, memAvailable int64, ok bool) {
	used, ok := components["working_set"]
	memAvailable, both := components["mem_available"]
	return max(0, capacity-used), memAvailable, ok && both
}

// LimitOf begins the name of the component with the limit of another cgroup than the signal's own.
const LimitOf = "limit of "

// named returns the name of the component with a figure of a cgroup, own if that is "".
func named(what, cgroup, own string) string {
	if cgroup != "" {
		return what + cgroup
	}
	return own
}

// PIDs adds to o what was read of the tasks of the node and of all pods.
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
		o.Components = append(o.Components,
			eviction.Component{Name: named(LimitOf, s.LimitOf, "pods_max"), Value: s.PodsMax},
			eviction.Component{Name: named("running in ", s.LimitOf, "pods_running"), Value: s.PodsRunning})
	}
	return o
}

// MostComponents is the maximum number of components of a filesystem's observation, with Images.
const MostComponents = 5

// Images is the component with the use of images on their filesystem, Used that with all use.
const (
	Images = "images"
	Used   = "used"
)

// Filesystem adds to o what was read of its filesystem; the component name, if not empty, comes
// first. If the filesystem counts no inodes (btrfs) or has no size, the signal is absent; the
// kubelet takes 0 of 0 as a figure. Components reuse the capacity that o has for them.
func Filesystem(o eviction.Observation, name string, s nodefs.FilesystemSample, err error) eviction.Observation {
	b, _ := eviction.Builtin(o.Signal)
	inodes := b.Unit == eviction.UnitInodes
	if inodes && err == nil {
		err = s.InodesErr
	}
	if err != nil {
		o.Err = err.Error()
		return o
	}
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
		o.Components = append(o.Components, eviction.Component{Name: Used, Value: s.Inodes - s.InodesFree})
		return o
	}
	o.Components = append(o.Components,
		eviction.Component{Name: Used, Value: s.CapacityBytes - s.FreeBytes},
		eviction.Component{Name: "free", Value: s.FreeBytes},
		eviction.Component{Name: "reserved", Value: max(0, s.FreeBytes-s.AvailableBytes)})
	return o
}

// PodMemory reads the working set of a pod on a machine with so much memory, using b.
func PodMemory(from *nodefs.PodCgroups[nodefs.MemoryUse], pod *eviction.Pod, machine eviction.Whole, b *nodefs.Buffer) eviction.Measurement {
	m, used := read(from, pod, machine, b, nodefs.MemoryUse.WorkingSetOf)
	m.WorkingSetBytes = used
	return m
}

// PodTasks reads the number of tasks of a pod of a node on which so many can run, using b.
func PodTasks(from *nodefs.PodCgroups[int64], pod *eviction.Pod, node eviction.Whole, b *nodefs.Buffer) eviction.Measurement {
	m, tasks := read(from, pod, node, b, nodefs.TasksOf)
	m.Processes = tasks
	return m
}

// read reads a pod's figure, a part of whole. A pod without a cgroup has no stats, unless it is running.
func read[T any](from *nodefs.PodCgroups[T], pod *eviction.Pod, whole eviction.Whole, b *nodefs.Buffer, part func(T, eviction.Whole) (int64, error)) (m eviction.Measurement, figure eviction.Figure) {
	m.UID, m.Time = pod.UID, time.Now()
	use, err := from.Read(pod.UID, string(pod.QoSClass), b)
	var amount int64
	if err == nil {
		amount, err = part(use, whole)
	}
	switch {
	case err == nil:
		m.State, figure = eviction.Measured, eviction.Some(amount)
	case errors.Is(err, nodefs.ErrGone) && !pod.Running:
		m.State = eviction.NoStats
	default:
		m.Err = err.Error()
	}
	return m, figure
}
