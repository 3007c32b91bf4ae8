package beside

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Settings are the recommended eviction settings of a KubeletConfiguration beside evictd, or with
// Node.DropIns a last drop-in that sets them.
type Settings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// CgroupsPerQOS is set if the kubelet's configuration must set it.
	CgroupsPerQOS bool `json:"cgroupsPerQOS,omitempty"`
	// In a drop-in null removes an entry of another file.
	EvictionHard            map[string]*string `json:"evictionHard"`
	EvictionSoft            map[string]*string `json:"evictionSoft"`
	EvictionSoftGracePeriod map[string]*string `json:"evictionSoftGracePeriod"`
	// SystemReserved is set if it must change.
	SystemReserved map[string]string `json:"systemReserved,omitempty"`
}

// Right returns the kubelet's settings that go with evictd's thresholds:
//
//   - its hard thresholds stay as safety net, and go down to half of evictd's where they
//     are not below;
//   - for memory and pids a soft threshold where evictd's first one is, with a grace
//     period that never runs out, has it report the condition, unless evictd's own taint tells
//     the scheduler; for disks it has none, as a restart under DiskPressure kills running pods;
//   - where evictd has no threshold all stays.
//
// The kubelet starts with them if it did before.
func Right(evictd, kubelet []policy.Threshold, n Node) Settings {
	c := comparison{ours: levelsOf(evictd), theirs: levelsOf(kubelet), node: n}
	out := Settings{
		APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration",
		EvictionHard: map[string]*string{}, EvictionSoft: map[string]*string{}, EvictionSoftGracePeriod: map[string]*string{},
	}
	for _, s := range c.signals() {
		b, builtin := eviction.Builtin(s)
		// The kubelet derives those of writable layers itself.
		if !builtin || b.Filesystem == eviction.ContainerFs {
			continue
		}
		ours, theirs, scale := c.ours[s], c.theirs[s], n.scale(s)
		keep := scale.highest(ours)
		net := safetyNet(ours, theirs, scale)
		if s == eviction.MemoryAvailable {
			net, out.SystemReserved = c.sameSum(net)
		}
		if net != nil {
			out.EvictionHard[string(s)] = new(net.String())
		}
		switch {
		case keep == nil && theirs.soft != nil:
			out.keep(s, theirs.soft.Value, theirs.soft.GracePeriod)
		case keep != nil && b.Filesystem == "" && (!n.OwnTaints || theirs.soft != nil):
			out.keep(s, keep.Value, KeeperGrace)
		case keep != nil && n.DropIns: // whether or not it is set, so that the drop-in does not depend on itself
			out.EvictionSoft[string(s)], out.EvictionSoftGracePeriod[string(s)] = nil, nil
		}
	}
	return out
}

// keep adds a soft threshold to s.
func (s *Settings) keep(signal eviction.Signal, v policy.Value, grace time.Duration) {
	s.EvictionSoft[string(signal)] = new(v.String())
	text := grace.String()
	if grace == KeeperGrace {
		text = "8760h"
	}
	s.EvictionSoftGracePeriod[string(signal)] = &text
}

// safetyNet returns the recommended hard value of the kubelet, nil for none.
func safetyNet(ours, theirs levels, s scale) *policy.Value {
	low := s.lowest(ours)
	if theirs.hard != nil {
		if low == nil {
			return &theirs.hard.Value
		}
		if c, known := s.compare(theirs.hard.Value, low.Value); known && c < 0 {
			return &theirs.hard.Value
		}
	}
	if low == nil {
		return nil
	}
	return half(low.Value)
}

// sameSum returns the kubelet's possible hard memory threshold, and systemReserved if that must
// change. With the memory manager's policy Static the kubelet starts only if reservedMemory equals
// the sum of kubeReserved, systemReserved and the hard threshold: systemReserved takes what the
// threshold gives up. reservedMemory does not change, because with another one the kubelet would
// not start before its memory_manager_state is removed.
func (c *comparison) sameSum(net *policy.Value) (hard *policy.Value, system map[string]string) {
	theirs, r := c.theirs[eviction.MemoryAvailable].hard, c.node.Reserved
	switch stays := theirs != nil && net == &theirs.Value; {
	case r.Static == nil || stays && !c.node.DropIns:
		return net, nil
	case stays:
		return net, r.System
	}
	if theirs != nil {
		hard = &theirs.Value
	}
	scale := c.node.scale(eviction.MemoryAvailable)
	if net == nil || net.IsPercentage && !scale.known {
		return hard, nil
	}
	amount := net.Of(scale.capacity)
	left := r.Static.DeepCopy()
	left.Sub(amount)
	if left.Sign() < 0 {
		return hard, nil
	}
	system = map[string]string{}
	maps.Copy(system, r.System)
	system["memory"] = left.String()
	return &policy.Value{Quantity: amount}, system
}

func half(v policy.Value) *policy.Value {
	if v.IsPercentage {
		return &policy.Value{Percentage: v.Percentage / 2, IsPercentage: true}
	}
	return &policy.Value{Quantity: *resource.NewQuantity(max(1, v.Quantity.Value()/2), v.Quantity.Format)}
}

// YAML returns s as a file.
func (s Settings) YAML() []byte {
	text, _ := yaml.Marshal(s) // texts always have one
	return text
}
