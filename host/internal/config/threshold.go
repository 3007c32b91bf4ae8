package config

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Thresholds returns what is configured, by the kubelet's grammar. Thresholds of
// vendors' own signals are there too: which plugin brings them and what they are is
// known when evictd runs, and may change.
func (c *Config) Thresholds() ([]policy.Threshold, error) {
	return policy.ParseThresholds(policy.ThresholdConfig{
		Hard:                   c.EvictionHard,
		Soft:                   c.EvictionSoft,
		SoftGracePeriod:        c.EvictionSoftGracePeriod,
		MinReclaim:             c.EvictionMinimumReclaim,
		EnforceNodeAllocatable: c.EnforceNodeAllocatable,
	}, c.OwnSignals()...)
}

// OwnSignals lists the signals that are configured, are not the kubelet's and could
// be a vendor's, by name.
func (c *Config) OwnSignals() []eviction.Signal {
	own := map[eviction.Signal]bool{}
	for _, m := range []map[string]string{c.EvictionHard, c.EvictionSoft, c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim} {
		for name := range m {
			if s := eviction.Signal(name); s.ValidOwn() == nil {
				own[s] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(own))
}
