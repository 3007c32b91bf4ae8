package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// thresholds returns the thresholds in force: those of c, unless an embedding program gives its own
// for the kubelet's signals. e is nil in a daemon.
func (e *embedding) thresholds(c *Config) ([]policy.Threshold, error) {
	all, err := c.Thresholds()
	if e == nil || e.Thresholds == nil || err != nil {
		return all, err
	}
	custom := slices.DeleteFunc(all, func(t policy.Threshold) bool { _, builtin := eviction.Builtin(t.Signal); return builtin })
	given := make([]policy.Threshold, len(e.Thresholds))
	var errs []error
	for i, t := range e.Thresholds {
		if _, builtin := eviction.Builtin(t.Signal); !builtin {
			errs = append(errs, fmt.Errorf("host.Embedding: Thresholds[%d].Signal: %q: want one of the kubelet's, %q; others are for Config", i, t.Signal, eviction.BuiltinSignals()))
		}
		given[i] = policy.Threshold{Signal: t.Signal, Value: t.Value.policy(), GracePeriod: t.GracePeriod}
		if t.MinReclaim != nil {
			least := t.MinReclaim.policy()
			given[i].MinReclaim = &least
		}
	}
	return append(given, custom...), errors.Join(errs...)
}

func (v ThresholdValue) policy() policy.Value {
	if v.Quantity == nil {
		return policy.Value{Percentage: v.Percentage, IsPercentage: true}
	}
	return policy.Value{Quantity: v.Quantity.DeepCopy()}
}
