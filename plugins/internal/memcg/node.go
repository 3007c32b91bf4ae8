// Package memcg has the memory cgroups of a node and of its pods, as the memory plugin and the pressure plugin read and
// watch them. It judges nothing: signals and rules stand in the plugins.
package memcg

import (
	"errors"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// A Node holds the sources of one configuration. Its descriptors are closed after it has been replaced
// and no call uses it any more.
type Node struct {
	Hierarchy nodefs.Hierarchy
	Naming    *nodefs.Naming
	// Total has the memory of the machine.
	Total       *nodefs.MemoryGauge
	Pods        *nodefs.PodCgroups[nodefs.MemoryUse]
	machine     *nodefs.Gauge[nodefs.Machine]
	allocatable *nodefs.MemoryGauge
}

// Open opens the sources of a node. Close closes them.
func Open(facts eviction.NodeFacts) (*Node, error) {
	fs := nodefs.FS{Root: facts.RootDir}
	naming, namingErr := fs.Naming(facts.CgroupRoot, facts.CgroupDriver)
	hierarchy, hierarchyErr := fs.MemoryHierarchy()
	if err := errors.Join(namingErr, hierarchyErr); err != nil {
		return nil, err
	}
	return &Node{
		Hierarchy:   hierarchy,
		Naming:      naming,
		machine:     fs.MachineMemory(nodefs.MemoryRules{ExcludeHugePages: facts.ExcludeHugePages}),
		Total:       hierarchy.NodeMemory(nodefs.MemoryRules{MemAvailable: true, Figure: facts.MemoryFigure, ExcludeHugePages: facts.ExcludeHugePages}),
		allocatable: hierarchy.AllPodsMemory(naming),
		Pods:        hierarchy.PodMemory(naming),
	}, nil
}

// Close closes all that is open.
func (n *Node) Close() {
	n.Total.Close()
	n.allocatable.Close()
	n.Pods.Close()
	n.machine.Close()
}

// Gauge returns the gauge of a signal, nil for a signal that the plugin does not have.
func (n *Node) Gauge(s eviction.Signal) *nodefs.MemoryGauge {
	switch s {
	case eviction.MemoryAvailable:
		return n.Total
	case eviction.AllocatableMemoryAvailable:
		return n.allocatable
	default:
		return nil
	}
}

// Cgroup returns the cgroup that Gauge reads for a signal. The error wraps nodefs.ErrGone while it is
// not known.
func (n *Node) Cgroup(s eviction.Signal) (string, error) {
	if s == eviction.MemoryAvailable {
		return "/", nil
	}
	names, err := n.Naming.Names()
	return names.Kubepods(), err
}
