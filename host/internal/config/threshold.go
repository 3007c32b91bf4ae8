package config

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Thresholds returns what is configured, by the kubelet's grammar. own are the
// signals that plugins have brought. A threshold of an own signal that no plugin
// has brought yet is there too, for a plugin may still come; until then nothing
// can observe it.
func (c *Config) Thresholds(own ...eviction.SignalSpec) ([]policy.Threshold, error) {
	return policy.ParseThresholds(policy.ThresholdConfig{
		Hard:                   c.EvictionHard,
		Soft:                   c.EvictionSoft,
		SoftGracePeriod:        c.EvictionSoftGracePeriod,
		MinReclaim:             c.EvictionMinimumReclaim,
		EnforceNodeAllocatable: c.EnforceNodeAllocatable,
	}, c.withExpected(own)...)
}

// withExpected adds to own the signals that are configured and could be a
// vendor's.
func (c *Config) withExpected(own []eviction.SignalSpec) []eviction.SignalSpec {
	known := make(map[eviction.Signal]bool, len(own))
	for _, s := range own {
		known[s.Signal] = true
	}
	all := slices.Clone(own)
	for _, m := range []map[string]string{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			s := eviction.Signal(name)
			if known[s] || s.ValidOwn() != nil {
				continue
			}
			known[s] = true
			all = append(all, eviction.SignalSpec{Signal: s, Definition: &eviction.Definition{
				Unit: "units", Format: eviction.FormatDecimalSI, Resource: name, Condition: eviction.Condition(name),
			}})
		}
	}
	return all
}
