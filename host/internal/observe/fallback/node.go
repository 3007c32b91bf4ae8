package fallback

import (
	"errors"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// node reads what a Reader can. Its formulas are those of the built-in plugins.
type node struct {
	fs    nodefs.FS
	facts eviction.NodeFacts
}

func (n node) memory() ([]eviction.Observation, error) {
	m, err := n.fs.ReadNodeMemory()
	return ofMemory(eviction.MemoryAvailable, m, err)
}

// allocatable is absent where pods have no cgroup of their own, or no limit.
func (n node) allocatable() ([]eviction.Observation, error) {
	naming, err := n.fs.Naming(n.facts.CgroupRoot, n.facts.CgroupDriver)
	if err != nil {
		return nil, err
	}
	h, err := n.fs.MemoryHierarchy()
	if err != nil {
		return nil, err
	}
	g := h.AllPodsMemory(naming)
	defer g.Close()
	m, err := g.Read(&nodefs.Buffer{})
	if errors.Is(err, nodefs.ErrGone) {
		return nil, nil
	}
	return ofMemory(eviction.AllocatableMemoryAvailable, m, err)
}

func ofMemory(s eviction.Signal, m nodefs.MemorySample, err error) ([]eviction.Observation, error) {
	if err != nil || !m.Limited {
		return nil, err
	}
	return []eviction.Observation{{Signal: s, Available: m.AvailableBytes, Capacity: m.CapacityBytes, Components: []eviction.Component{
		{Name: "limit", Value: m.CapacityBytes},
		{Name: "usage", Value: m.UsageBytes},
		{Name: "inactive_file", Value: m.InactiveFileBytes},
		{Name: "working_set", Value: m.WorkingSetBytes()},
	}}}, nil
}

// disk has no figure where the filesystem counts no inodes, or has no size.
func (n node) disk() (all []eviction.Observation, err error) {
	room, err := n.fs.Statfs(n.facts.KubeletRootDir)
	if err != nil {
		return nil, err
	}
	if room.CapacityBytes > 0 {
		all = append(all, eviction.Observation{Signal: eviction.NodeFsAvailable, Available: room.AvailableBytes, Capacity: room.CapacityBytes, Components: []eviction.Component{
			{Name: "used", Value: room.CapacityBytes - room.FreeBytes},
			{Name: "free", Value: room.FreeBytes},
			{Name: "reserved", Value: room.FreeBytes - room.AvailableBytes},
		}})
	}
	if room.Inodes > 0 {
		all = append(all, eviction.Observation{Signal: eviction.NodeFsInodesFree, Available: room.InodesFree, Capacity: room.Inodes, Components: []eviction.Component{
			{Name: "used", Value: room.Inodes - room.InodesFree},
		}})
	}
	return all, nil
}

// pids are those of this process's pid namespace, which must be the node's. Where the
// node is a container itself only the pid plugin is told so; here it is unknown.
func (n node) pids() ([]eviction.Observation, error) {
	if err := n.fs.CheckPIDNamespace(false); err != nil {
		return nil, err
	}
	s, err := n.fs.ReadPIDs()
	if err != nil {
		return nil, err
	}
	return []eviction.Observation{{Signal: eviction.PIDAvailable, Available: s.Available(), Capacity: s.Max(), Components: []eviction.Component{
		{Name: "pid_max", Value: s.PIDMax},
		{Name: "threads_max", Value: s.ThreadsMax},
		{Name: "running", Value: s.Running},
	}}}, nil
}
