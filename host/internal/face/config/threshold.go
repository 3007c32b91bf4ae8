package config

import (
	"errors"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// ParseThreshold parses a threshold as it is printed, such as "memory.available<2Gi for 30s", with the rules of a
// configuration.
func ParseThreshold(text string) (policy.Threshold, error) {
	signal, rest, _ := strings.Cut(text, "<")
	value, grace, soft := strings.Cut(rest, " for ")
	signal, value = strings.TrimSpace(signal), strings.TrimSpace(value)
	key, c := signal, Default()
	if signal == string(eviction.AllocatableMemoryAvailable) { // which follows from the other
		key = string(eviction.MemoryAvailable)
	}
	c.EvictionHard = map[string]string{key: value}
	if soft {
		c.EvictionHard, c.EvictionSoft = nil, c.EvictionHard
		c.EvictionSoftGracePeriod = map[string]string{key: strings.TrimSpace(grace)}
	}
	all, err := c.Thresholds()
	all = slices.DeleteFunc(all, func(t policy.Threshold) bool { return string(t.Signal) != signal })
	if err != nil || len(all) != 1 {
		return policy.Threshold{}, errors.Join(err, errors.New(`want one such as "memory.available<2Gi" or "memory.available<2Gi for 30s"`))
	}
	return all[0], nil
}
