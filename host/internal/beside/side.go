package beside

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// KeeperGrace is the grace period of a soft threshold that is there to have the kubelet
// report a condition, and not to evict.
const KeeperGrace = 8760 * time.Hour

// leastKeeperGrace is from where on a grace period is taken for one that is not meant to
// run out. The kubelet counts it from the crossing, and again after each restart.
const leastKeeperGrace = 30 * 24 * time.Hour

// Node holds the facts of the node that evictd and the kubelet share.
type Node struct {
	// Capacity of each signal in its unit, the base of percentages; unknown signals are missing.
	Capacity map[eviction.Signal]int64
	// Falls are the steepest drops per second seen of signals here; unknown signals are missing.
	Falls    map[eviction.Signal]int64
	Reserved Reserved
	// DropIns: the kubelet has a directory of drop-ins, which merge mappings key by key.
	DropIns bool
	// OwnConditions: evictd writes conditions of disks and of custom signals to the node's
	// object itself, and OwnTaints: taints of these names too.
	OwnConditions, OwnTaints bool
}

// Reserved holds the resources that the kubelet keeps from pods for itself and the system.
type Reserved struct {
	// Memory and Storage are kubeReserved and systemReserved together.
	Memory, Storage resource.Quantity
	// System is systemReserved as it is written.
	System map[string]string
	// Static is the memory that systemReserved and the hard threshold have to come to, with the
	// memory manager's policy Static; else nil.
	Static *resource.Quantity
}

// levels are the thresholds of one side for one signal.
type levels struct {
	hard, soft *policy.Threshold
}

// levelsOf returns the levels of thresholds by signal. The copies for the memory of all pods
// follow those of the node, on both sides.
func levelsOf(thresholds []policy.Threshold) map[eviction.Signal]levels {
	all := map[eviction.Signal]levels{}
	for _, t := range thresholds {
		if t.Signal == eviction.AllocatableMemoryAvailable {
			continue
		}
		l := all[t.Signal]
		if t.Hard() {
			l.hard = &t
		} else {
			l.soft = &t
		}
		all[t.Signal] = l
	}
	return all
}

// A scale compares amounts of one signal.
type scale struct {
	capacity int64
	known    bool
}

func (n Node) scale(s eviction.Signal) scale {
	c, ok := n.Capacity[s]
	return scale{c, ok && c > 0}
}

// compare compares as cmp.Compare, and returns false where one is a percentage, the other not, and
// its base is unknown.
func (s scale) compare(a, b policy.Value) (int, bool) {
	if order, known := a.Compare(b); known || !s.known {
		return order, known
	}
	x, y := a.Of(s.capacity), b.Of(s.capacity)
	return x.Cmp(y), true
}

// highest returns the one of l that is crossed first, nil if there is none. Where they cannot
// be compared it is the soft one, as it is meant to be.
func (s scale) highest(l levels) *policy.Threshold {
	switch {
	case l.hard == nil:
		return l.soft
	case l.soft == nil:
		return l.hard
	}
	if c, ok := s.compare(l.hard.Value, l.soft.Value); ok && c > 0 {
		return l.hard
	}
	return l.soft
}

// lowest returns the other one.
func (s scale) lowest(l levels) *policy.Threshold {
	if l.hard != nil && l.soft != nil && s.highest(l) == l.hard {
		return l.soft
	}
	if l.hard != nil {
		return l.hard
	}
	return l.soft
}

// keeper reports whether the soft threshold of l only reports.
func (l levels) keeper() bool { return l.soft != nil && l.soft.GracePeriod >= leastKeeperGrace }
