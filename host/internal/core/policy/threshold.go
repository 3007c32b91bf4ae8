package policy

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/shared/eviction"
)

// Threshold is one configured point below which a signal is under pressure.
type Threshold struct {
	Signal eviction.Signal
	Value  Value
	// GracePeriod is the time for which the threshold must be met before a pod is evicted.
	GracePeriod time.Duration
	// MinReclaim must become available beyond Value once the threshold was met, nil for nothing.
	MinReclaim *Value
	// Custom is a plugin's definition of its custom signal, nil for the kubelet's signals and
	// where no plugin has defined it yet: see Defined.
	Custom *eviction.Definition
}

// Key identifies a threshold across passes and configuration reloads: signal, value and grace
// period. As in the kubelet (hasThreshold) min reclaim is not part of it. The definition of the
// signal is: if a plugin changes it the timers start again.
type Key struct {
	Signal      eviction.Signal
	Value       string
	GracePeriod time.Duration
	Definition  eviction.Definition
}

// Key returns the key of t.
func (t Threshold) Key() Key {
	return Key{Signal: t.Signal, Value: t.Value.canonical(), GracePeriod: t.GracePeriod, Definition: t.Definition()}
}

// Hard reports whether t acts at once. A soft threshold with a grace period of
// zero is a hard one in every respect (isHardEvictionThreshold).
func (t Threshold) Hard() bool { return t.GracePeriod == 0 }

// String formats t: "memory.available<1Gi", with the grace period if there is one.
func (t Threshold) String() string {
	s := string(t.Signal) + "<" + t.Value.String()
	if !t.Hard() {
		s += " for " + t.GracePeriod.String()
	}
	return s
}

// Definition returns the definition of t's signal, with its unit and condition.
func (t Threshold) Definition() eviction.Definition {
	if t.Custom != nil {
		return *t.Custom
	}
	d, _ := eviction.Builtin(t.Signal)
	return d.Definition
}

// Defined reports whether t's signal has a definition. Otherwise t cannot be in force: no plugin
// defines the custom signal.
func (t Threshold) Defined() bool { return t.Definition() != eviction.Definition{} }

// Define returns thresholds with their custom signals defined by definitions, or undefined if
// missing there.
func Define(thresholds []Threshold, definitions map[eviction.Signal]eviction.Definition) []Threshold {
	out := slices.Clone(thresholds)
	for i := range out {
		out[i].Custom = nil
		if _, builtin := eviction.Builtin(out[i].Signal); builtin {
			continue
		}
		if d, ok := definitions[out[i].Signal]; ok {
			out[i].Custom = &d
		}
	}
	return out
}

// Amount returns the amount below which t is met, for an observed capacity. A percentage of a
// custom signal is formatted like that signal.
func (t Threshold) Amount(capacity int64) resource.Quantity {
	q := t.Value.Of(capacity)
	if t.Custom != nil && t.Value.IsPercentage {
		q.Format = resource.Format(t.Custom.Format)
	}
	return q
}

// required returns Amount plus min reclaim.
func (t Threshold) required(capacity int64) resource.Quantity {
	q := t.Amount(capacity)
	if t.MinReclaim != nil {
		q.Add(t.MinReclaim.Of(capacity))
	}
	return q
}

// Wire returns t's value for plugins: a fraction, or an amount rounded up and clamped to an int64.
func (t Threshold) Wire() eviction.Threshold {
	switch {
	case !t.Value.IsPercentage:
		return eviction.Threshold{Amount: whole(t.Value.Quantity)}
	case math.IsNaN(float64(t.Value.Percentage)):
		return eviction.Threshold{}
	default:
		return eviction.Threshold{Fraction: t.Value.Percentage}
	}
}

// met reports whether o is strictly below t, plus min reclaim if requested.
func (t Threshold) met(o eviction.Observation, withMinReclaim bool) bool {
	if o.State != eviction.Observed {
		return false
	}
	q := t.Amount(o.Capacity)
	if withMinReclaim {
		q = t.required(o.Capacity)
	}
	return q.CmpInt64(o.Available) > 0
}
