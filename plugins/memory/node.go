package memory

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// Bounds of the configured poll interval.
const (
	defaultPollInterval = 100 * time.Millisecond
	minPollInterval     = 10 * time.Millisecond
	maxPollInterval     = 10 * time.Second
)

// config is the plugin's own configuration.
type config struct {
	// PollInterval is the maximum time between two looks of the watcher while the kernel does not
	// notify, as a Go duration. By default it is 100ms, and up to 1s far from all thresholds.
	PollInterval string `json:"pollInterval"`
}

// node holds the sources of one configuration. Its descriptors are closed after it has been replaced
// and no call uses it any more.
type node struct {
	hierarchy    nodefs.Hierarchy
	naming       *nodefs.Naming
	machine      *nodefs.Gauge[nodefs.Machine]
	total        *nodefs.MemoryGauge
	allocatable  *nodefs.MemoryGauge
	pods         *nodefs.PodCgroups[nodefs.MemoryUse]
	pollInterval time.Duration
	farRate      int64 // of watchers
	// silent belongs to the plugin.
	silent map[eviction.Signal]*atomic.Bool
}

func newNode(facts eviction.NodeFacts) (*node, error) {
	fs := nodefs.FS{Root: facts.RootDir}
	naming, namingErr := fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
	hierarchy, hierarchyErr := fs.MemoryHierarchy()
	if err := errors.Join(namingErr, hierarchyErr); err != nil {
		return nil, err
	}
	return &node{
		hierarchy:   hierarchy,
		naming:      naming,
		machine:     fs.MachineMemory(nodefs.MemoryRules{ExcludeHugePages: facts.ExcludeHugePages}),
		total:       hierarchy.NodeMemory(nodefs.MemoryRules{MemAvailable: true, Figure: facts.MemoryFigure, ExcludeHugePages: facts.ExcludeHugePages}),
		allocatable: hierarchy.AllPodsMemory(naming),
		pods:        hierarchy.PodMemory(naming),
	}, nil
}

func (n *node) close() {
	n.total.Close()
	n.allocatable.Close()
	n.pods.Close()
	n.machine.Close()
}

func (c config) pollInterval() (time.Duration, error) {
	if c.PollInterval == "" {
		return defaultPollInterval, nil
	}
	d, err := time.ParseDuration(c.PollInterval)
	if err != nil {
		return 0, fmt.Errorf("config: pollInterval: %w", err)
	}
	if d < minPollInterval || d > maxPollInterval {
		return 0, fmt.Errorf("config: pollInterval: %v, want %v to %v", d, minPollInterval, maxPollInterval)
	}
	return d, nil
}

// gauge returns the gauge of a signal, nil for a signal that the plugin does not have.
func (n *node) gauge(s eviction.Signal) *nodefs.MemoryGauge {
	switch s {
	case eviction.MemoryAvailable:
		return n.total
	case eviction.AllocatableMemoryAvailable:
		return n.allocatable
	default:
		return nil
	}
}

// cgroup returns the cgroup that gauge reads for a signal. The error wraps nodefs.ErrGone while it is
// not known.
func (n *node) cgroup(s eviction.Signal) (string, error) {
	if s == eviction.MemoryAvailable {
		return "/", nil
	}
	names, err := n.naming.Names()
	return names.Kubepods(), err
}
