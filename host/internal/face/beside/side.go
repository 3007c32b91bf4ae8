package beside

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// KeeperGrace is the grace period of a soft threshold with which the kubelet only reports a
// condition and does not evict.
const KeeperGrace = 8760 * time.Hour

// leastKeeperGrace is the grace period from which on a soft threshold counts as one that only
// reports. The kubelet counts it from the crossing, and again after each restart.
const leastKeeperGrace = 30 * 24 * time.Hour

// Node holds facts about the node of evictd and the kubelet.
type Node struct {
	// Capacity of each signal in its unit, the base of percentages; unknown signals are missing.
	Capacity map[eviction.Signal]int64
	// Falls holds the steepest observed drops of signals per second; unknown signals are missing.
	Falls    map[eviction.Signal]int64
	Reserved Reserved
	// DropIns: the kubelet has a drop-in directory, whose files merge mappings key by key.
	DropIns bool
	// OwnConditions: evictd itself writes conditions to the Node object; OwnTaints: also taints.
	OwnConditions, OwnTaints bool
}

// Reserved holds the resources that the kubelet reserves for itself and the system.
type Reserved struct {
	// Memory and Storage are the sums of kubeReserved and systemReserved.
	Memory, Storage resource.Quantity
	// System is systemReserved as configured.
	System map[string]string
	// Static is the required sum of systemReserved and the hard threshold with the memory manager's
	// policy Static, otherwise nil.
	Static *resource.Quantity
}

// levels holds the thresholds of one side for one signal.
type levels struct {
	hard, soft *policy.Threshold
}

// acting returns l without a soft threshold that only reports.
func (l levels) acting() levels {
	if l.soft != nil && l.soft.GracePeriod >= leastKeeperGrace {
		l.soft = nil
	}
	return l
}

// levelsOf returns the thresholds by signal. Those for the memory of all pods are copies of the
// node's, on both sides, and are left out.
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

// compare is like cmp.Compare, but false if only one is a percentage and its base is unknown.
func (s scale) compare(a, b policy.Value) (int, bool) {
	if order, known := a.Compare(b); known || !s.known {
		return order, known
	}
	x, y := a.Of(s.capacity), b.Of(s.capacity)
	return x.Cmp(y), true
}

// highest returns the threshold of l that is crossed first, nil if there is none. If they cannot be
// compared it is the soft one, as intended.
func (s scale) highest(l levels) *policy.Threshold {
	switch {
	case l.hard == nil:
		return l.soft
	case l.soft == nil:
		return l.hard
	}
	if c, ok := s.compare(l.hard.Value, l.soft.Value); ok && c >= 0 {
		return l.hard
	}
	return l.soft
}

// lowest returns the other threshold.
func (s scale) lowest(l levels) *policy.Threshold {
	if l.hard != nil && (l.soft == nil || s.highest(l) == l.soft) {
		return l.hard
	}
	return l.soft
}
