package beside

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Settings are the keys of a KubeletConfiguration that have to do with evictions, as they
// would be right beside evictd.
type Settings struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// CgroupsPerQOS is set if the kubelet must be told.
	CgroupsPerQOS           bool              `json:"cgroupsPerQOS,omitempty"`
	EvictionHard            map[string]string `json:"evictionHard"`
	EvictionSoft            map[string]string `json:"evictionSoft"`
	EvictionSoftGracePeriod map[string]string `json:"evictionSoftGracePeriod"`
}

// Right returns the kubelet's settings that go with evictd's thresholds:
//
//   - its hard thresholds stay as safety net, and go down to half of evictd's where they
//     are not below;
//   - for memory and pids a soft threshold where evictd's first one is, with a grace
//     period that never runs out, has it report the condition; for disks it has none, as a
//     restart under DiskPressure kills running pods;
//   - where evictd has no threshold all stays.
func Right(evictd, kubelet []policy.Threshold, n Node) Settings {
	c := comparison{ours: levelsOf(evictd), theirs: levelsOf(kubelet), node: n}
	out := Settings{
		APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: "KubeletConfiguration",
		EvictionHard: map[string]string{}, EvictionSoft: map[string]string{}, EvictionSoftGracePeriod: map[string]string{},
	}
	for _, s := range c.signals() {
		b, builtin := eviction.Builtin(s)
		// The kubelet derives those of writable layers itself.
		if !builtin || b.Filesystem == eviction.ContainerFs {
			continue
		}
		ours, theirs, scale := c.ours[s], c.theirs[s], n.scale(s)
		keep := scale.highest(ours)
		if net := safetyNet(ours, theirs, scale); net != nil {
			out.EvictionHard[string(s)] = net.String()
		}
		switch {
		case keep == nil && theirs.soft != nil:
			out.keep(s, theirs.soft.Value, theirs.soft.GracePeriod)
		case keep != nil && b.Filesystem == "":
			out.keep(s, keep.Value, KeeperGrace)
		}
	}
	return out
}

// keep has a soft threshold in s.
func (s *Settings) keep(signal eviction.Signal, v policy.Value, grace time.Duration) {
	s.EvictionSoft[string(signal)] = v.String()
	text := grace.String()
	if grace == KeeperGrace {
		text = "8760h"
	}
	s.EvictionSoftGracePeriod[string(signal)] = text
}

// safetyNet is the kubelet's hard value as it would be right, nil for none.
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

func half(v policy.Value) *policy.Value {
	if v.IsPercentage {
		return &policy.Value{Percentage: v.Percentage / 2, IsPercentage: true}
	}
	return &policy.Value{Quantity: *resource.NewQuantity(max(1, v.Quantity.Value()/2), v.Quantity.Format)}
}

// YAML is s as a file.
func (s Settings) YAML() ([]byte, error) {
	text, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the kubelet's settings: %w", err)
	}
	return text, nil
}
