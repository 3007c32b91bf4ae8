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

func (n node) memory() sample {
	m, err := n.fs.ReadNodeMemory()
	return memorySample(eviction.MemoryAvailable, m, err)
}

// allocatable is absent where pods have no cgroup of their own, or no limit.
func (n node) allocatable() sample {
	naming, err := n.fs.Naming(n.facts.CgroupRoot, n.facts.CgroupDriver)
	if err != nil {
		return sample{err: err}
	}
	h, err := n.fs.MemoryHierarchy()
	if err != nil {
		return sample{err: err}
	}
	g := h.AllPodsMemory(naming)
	defer g.Close()
	m, err := g.Read(&nodefs.Buffer{})
	if errors.Is(err, nodefs.ErrGone) {
		return sample{}
	}
	return memorySample(eviction.AllocatableMemoryAvailable, m, err)
}

func memorySample(s eviction.Signal, m nodefs.MemorySample, err error) sample {
	if err != nil {
		return sample{err: err}
	}
	if !m.Limited {
		return sample{}
	}
	return sample{figures: map[eviction.Signal]figures{s: {m.AvailableBytes, m.CapacityBytes, []eviction.Component{
		{Name: "limit", Value: m.CapacityBytes},
		{Name: "usage", Value: m.UsageBytes},
		{Name: "inactive_file", Value: m.InactiveFileBytes},
		{Name: "working_set", Value: m.WorkingSetBytes()},
	}}}}
}

// disk has no figure where the filesystem counts no inodes, or has no size.
func (n node) disk() sample {
	room, err := n.fs.Statfs(n.facts.KubeletRootDir)
	if err != nil {
		return sample{err: err}
	}
	all := map[eviction.Signal]figures{}
	if room.CapacityBytes > 0 {
		all[eviction.NodeFsAvailable] = figures{room.AvailableBytes, room.CapacityBytes, []eviction.Component{
			{Name: "used", Value: room.CapacityBytes - room.FreeBytes},
			{Name: "free", Value: room.FreeBytes},
			{Name: "reserved", Value: room.FreeBytes - room.AvailableBytes},
		}}
	}
	if room.Inodes > 0 {
		all[eviction.NodeFsInodesFree] = figures{room.InodesFree, room.Inodes, []eviction.Component{
			{Name: "used", Value: room.Inodes - room.InodesFree},
		}}
	}
	return sample{figures: all}
}

// pids are those of this process's pid namespace, which must be the node's. Where the
// node is a container itself only the pid plugin is told so; here it is unknown.
func (n node) pids() sample {
	if err := n.fs.CheckPIDNamespace(false); err != nil {
		return sample{err: err}
	}
	s, err := n.fs.ReadPIDs()
	if err != nil {
		return sample{err: err}
	}
	return sample{figures: map[eviction.Signal]figures{eviction.PIDAvailable: {s.Available(), s.Max(), []eviction.Component{
		{Name: "pid_max", Value: s.PIDMax},
		{Name: "threads_max", Value: s.ThreadsMax},
		{Name: "running", Value: s.Running},
	}}}}
}
