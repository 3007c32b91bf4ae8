package fallback

import (
	"cmp"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// node reads a Reader's figures. What is sampled each second stays open.
type node struct {
	fs                 nodefs.FS
	facts              eviction.NodeFacts
	figure             *atomic.Value // the string of eviction.NodeFacts
	total, allocatable *kept[nodefs.MemorySample]
	tasks              *kept[nodefs.PIDSample]
}

func newNode(facts eviction.NodeFacts) node {
	n := node{fs: nodefs.FS{Root: facts.RootDir}, facts: facts, figure: &atomic.Value{}}
	n.figure.Store(facts.MemoryFigure)
	n.total = &kept[nodefs.MemorySample]{open: func() (*nodefs.MemoryGauge, error) {
		h, err := n.fs.MemoryHierarchy()
		figure, _ := n.figure.Load().(string)
		return h.NodeMemory(nodefs.MemoryRules{MemAvailable: true, Figure: figure, ExcludeHugePages: facts.ExcludeHugePages}), err
	}}
	n.allocatable = &kept[nodefs.MemorySample]{open: func() (*nodefs.MemoryGauge, error) {
		h, naming, err := n.cgroups(nodefs.FS.MemoryHierarchy)
		if err != nil {
			return nil, errors.New(err.Error()) // unknown, also without a hierarchy
		}
		return h.AllPodsMemory(naming), nil
	}}
	// On a node that is a container, only the pid plugin can be configured to count the pids of this
	// process's pid namespace; here the figure is unknown.
	n.tasks = &kept[nodefs.PIDSample]{open: func() (*nodefs.PIDGauge, error) {
		naming, err := n.fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
		return n.fs.PIDs(naming), cmp.Or(err, n.fs.CheckPIDNamespace(false))
	}}
	return n
}

// A kept gauge is opened again after a failed read. It is safe for concurrent use.
type kept[T any] struct {
	open func() (*nodefs.Gauge[T], error)

	mu     sync.Mutex
	gauge  *nodefs.Gauge[T]
	buffer nodefs.Buffer
}

func (k *kept[T]) read() (s T, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gauge == nil {
		gauge, err := k.open()
		if err != nil {
			return s, err
		}
		k.gauge = gauge
	}
	if s, err = k.gauge.Read(&k.buffer); err != nil {
		k.close()
	}
	return s, err
}

func (k *kept[T]) reopen() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gauge != nil {
		k.close()
	}
}

func (k *kept[T]) close() {
	k.gauge.Close()
	k.gauge = nil
}

func (n node) disk(o eviction.Observation) eviction.Observation {
	room, err := n.fs.Statfs(n.facts.KubeletRootDir)
	return figures.Filesystem(o, "", room, err)
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
