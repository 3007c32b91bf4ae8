package fallback

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// node reads a Reader's figures, keeping nothing open.
type node struct {
	fs    nodefs.FS
	facts eviction.NodeFacts
}

func (n node) memory(o eviction.Observation) eviction.Observation {
	m, err := n.fs.ReadNodeMemory(nodefs.MemoryRules{Capped: true, ExcludeHugePages: n.facts.ExcludeHugePages})
	return figures.Memory(o, m, err)
}

func (n node) allocatable(o eviction.Observation) eviction.Observation {
	h, naming, err := n.cgroups(nodefs.FS.MemoryHierarchy)
	if err != nil {
		o.Err = err.Error()
		return o
	}
	g := h.AllPodsMemory(naming)
	defer g.Close()
	m, err := g.Read(&nodefs.Buffer{})
	return figures.Memory(o, m, err)
}

func (n node) disk(o eviction.Observation) eviction.Observation {
	room, err := n.fs.Statfs(n.facts.KubeletRootDir)
	return figures.Filesystem(o, "", room, err)
}

// pids counts the pids of this process's pid namespace, which must be the node's. On a node that is
// a container, only the pid plugin can be configured to count; here the figure is unknown.
func (n node) pids(o eviction.Observation) eviction.Observation {
	var s nodefs.PIDSample
	naming, err := n.fs.Naming(n.facts.CgroupRoot, n.facts.CgroupDriver)
	if err == nil {
		err = n.fs.CheckPIDNamespace(false)
	}
	if err == nil {
		s, err = n.fs.ReadPIDs(naming)
	}
	return figures.PIDs(o, s, err)
}

// machine returns the machine's memory, of which any amount can be if it cannot be read.
func (n node) machine() eviction.Whole {
	gauge := n.fs.MachineMemory(nodefs.MemoryRules{})
	defer gauge.Close()
	machine, _ := gauge.Read(&nodefs.Buffer{})
	return machine.Whole()
}

// A podReader reads a figure of one pod.
type podReader func(*eviction.Pod, *nodefs.Buffer) eviction.Measurement

func (n node) podMemory() (podReader, error) {
	return n.pods(nodefs.FS.MemoryHierarchy, func(h nodefs.Hierarchy, naming *nodefs.Naming) podReader {
		from, machine := h.PodMemory(naming).KeepingNone(), n.machine()
		return func(pod *eviction.Pod, b *nodefs.Buffer) eviction.Measurement {
			return figures.PodMemory(from, pod, machine, b)
		}
	})
}

func (n node) podTasks() (podReader, error) {
	return n.pods(nodefs.FS.PIDsHierarchy, func(h nodefs.Hierarchy, naming *nodefs.Naming) podReader {
		from := h.PodTasks(naming).KeepingNone()
		s, _ := n.fs.ReadPIDs(naming)
		return func(pod *eviction.Pod, b *nodefs.Buffer) eviction.Measurement {
			return figures.PodTasks(from, pod, s.Whole(), b)
		}
	})
}

// pods returns a reader of pods, or an error if their cgroups cannot be found.
func (n node) pods(find func(nodefs.FS) (nodefs.Hierarchy, error), reader func(nodefs.Hierarchy, *nodefs.Naming) podReader) (podReader, error) {
	h, naming, err := n.cgroups(find)
	if err != nil {
		return nil, err
	}
	if _, err := naming.Names(); err != nil {
		return nil, err
	}
	return reader(h, naming), nil
}

func (n node) cgroups(find func(nodefs.FS) (nodefs.Hierarchy, error)) (h nodefs.Hierarchy, naming *nodefs.Naming, err error) {
	if naming, err = n.fs.Naming(n.facts.CgroupRoot, n.facts.CgroupDriver); err == nil {
		h, err = find(n.fs)
	}
	return h, naming, err
}
