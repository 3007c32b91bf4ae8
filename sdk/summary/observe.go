package summary

import (
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// Observe returns the observation of a built-in signal by the kubelet's formulas
// (makeSignalObservations). It is absent if a required figure is missing. Arithmetic wraps
// around like the kubelet's.
func (s *Summary) Observe(signal eviction.Signal) eviction.Observation {
	n := &s.Node
	o := eviction.Observation{Signal: signal, State: eviction.Absent}
	switch signal {
	case eviction.MemoryAvailable:
		observeMemory(&o, &n.Memory)
	case eviction.AllocatableMemoryAvailable:
		observeMemory(&o, n.podsMemory())
	case eviction.NodeFsAvailable:
		observe(&o, n.Fs.AvailableBytes, n.Fs.CapacityBytes, n.Fs.Time)
	case eviction.NodeFsInodesFree:
		observe(&o, n.Fs.InodesFree, n.Fs.Inodes, n.Fs.Time)
	case eviction.ImageFsAvailable:
		observe(&o, n.ImageFs.AvailableBytes, n.ImageFs.CapacityBytes, n.ImageFs.Time)
	case eviction.ImageFsInodesFree:
		observe(&o, n.ImageFs.InodesFree, n.ImageFs.Inodes, n.ImageFs.Time)
	case eviction.ContainerFsAvailable:
		observe(&o, n.ContainerFs.AvailableBytes, n.ContainerFs.CapacityBytes, n.ContainerFs.Time)
	case eviction.ContainerFsInodesFree:
		observe(&o, n.ContainerFs.InodesFree, n.ContainerFs.Inodes, n.ContainerFs.Time)
	case eviction.PIDAvailable:
		observePIDs(&o, &n.Rlimit)
	default:
		o.State = eviction.Unknown
		o.Err = fmt.Sprintf("the summary has no signal %q", signal)
	}
	return o
}

func observe(o *eviction.Observation, available, capacity eviction.Figure, at time.Time) {
	if !available.OK || !capacity.OK {
		return
	}
	o.State = eviction.Observed
	o.Available, o.Capacity = available.Value, capacity.Value
	o.Time = at
}

// observeMemory uses the sum of available and used memory as the capacity, since a summary does
// not contain the cgroup's limit.
func observeMemory(o *eviction.Observation, m *Memory) {
	capacity := eviction.Figure{Value: m.AvailableBytes.Value + m.WorkingSetBytes.Value, OK: m.WorkingSetBytes.OK}
	if observe(o, m.AvailableBytes, capacity, m.Time); o.State == eviction.Observed {
		o.Components = []eviction.Component{{Name: "working_set", Value: m.WorkingSetBytes.Value}}
	}
}

func observePIDs(o *eviction.Observation, r *Rlimit) {
	available := eviction.Figure{Value: r.MaxPID.Value - r.Running.Value, OK: r.Running.OK}
	if observe(o, available, r.MaxPID, r.Time); o.State == eviction.Observed {
		o.Components = []eviction.Component{{Name: "running", Value: r.Running.Value}}
	}
}

// podsMemory returns the memory of the first system container named "pods".
func (n *Node) podsMemory() *Memory {
	for i := range n.SystemContainers {
		if n.SystemContainers[i].Name == "pods" {
			return &n.SystemContainers[i].Memory
		}
	}
	return new(Memory)
}
