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
	b, _ := eviction.Builtin(signal)
	fs := map[eviction.Filesystem]*Filesystem{eviction.NodeFs: &n.Fs, eviction.ImageFs: &n.ImageFs, eviction.ContainerFs: &n.ContainerFs}[b.Filesystem]
	switch {
	case signal == eviction.MemoryAvailable:
		observeMemory(&o, &n.Memory)
	case signal == eviction.AllocatableMemoryAvailable:
		observeMemory(&o, n.podsMemory())
	case signal == eviction.PIDAvailable:
		observePIDs(&o, &n.Rlimit)
	case fs != nil && b.Unit == eviction.UnitInodes:
		observe(&o, fs.InodesFree, fs.Inodes, fs.Time)
	case fs != nil:
		observe(&o, fs.AvailableBytes, fs.CapacityBytes, fs.Time)
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
