package decision

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// A Threshold is a threshold in force, with its state.
type Threshold struct {
	Signal eviction.Signal `json:"signal"`
	// Value is an amount or a percentage of the capacity, as configured: "100Mi", "10%".
	Value string `json:"value"`
	// GracePeriod is empty for a hard threshold.
	GracePeriod string `json:"gracePeriod,omitempty"`
	// MinReclaim must become available beyond Value once the threshold was met, empty for nothing.
	MinReclaim string `json:"minReclaim,omitempty"`
	// Custom is set for a signal that is not the kubelet's.
	Custom *CustomSignal `json:"custom,omitempty"`
	// Since is when it was first observed to be met, if it is, regardless of the grace period.
	Since *time.Time `json:"since,omitempty"`
	// GraceOver: it was met for its whole grace period. Actionable: also by figures newer than
	// those of the previous pass. Acted: it is the threshold that was acted on.
	GraceOver  bool `json:"graceOver,omitempty"`
	Actionable bool `json:"actionable,omitempty"`
	Acted      bool `json:"acted,omitempty"`
	// InForce is from when on it is in force, missing if it was before the first sample.
	InForce *time.Time `json:"inForce,omitempty"`
	// Unobserved: the signal could not be observed, so the threshold has no effect.
	Unobserved bool `json:"unobserved,omitempty"`
}

// A CustomSignal is the definition of a signal that is not the kubelet's. It is empty until a
// plugin defines the signal.
type CustomSignal struct {
	Unit      eviction.Unit      `json:"unit"`
	Format    eviction.Format    `json:"format"`
	Resource  string             `json:"resource"`
	Condition eviction.Condition `json:"condition"`
	// ReliefTime bounds the time until what a victim frees becomes visible.
	ReliefTime string `json:"reliefTime,omitempty"`
	// RankedOnly: only pods that a ranking names may be evicted for the signal.
	RankedOnly bool `json:"rankedOnly,omitempty"`
	// Relieves is the kubelet's signal of the resource that a victim frees, empty for one of the vendor's own.
	Relieves eviction.Signal `json:"relieves,omitempty"`
}

// Thresholds returns thresholds with their state at now.
func Thresholds(all []policy.Threshold, a *policy.Assessment, now time.Time) []Threshold {
	since := make(map[policy.Key]time.Time, len(a.Observed))
	for _, o := range a.Observed {
		since[o.Key()] = metSince(o.FirstObservedAt, now)
	}
	rows := make([]Threshold, len(all))
	for i, t := range all {
		row := threshold(t)
		if first, met := since[t.Key()]; met {
			is := func(u policy.Threshold) bool { return u.Key() == t.Key() }
			row.Since, row.GraceOver, row.Actionable = &first, slices.ContainsFunc(a.Met, is), slices.ContainsFunc(a.Actionable, is)
		}
		rows[i] = row
	}
	return rows
}

// metSince returns first on the wall clock of now, which may have been set meanwhile.
func metSince(first, now time.Time) time.Time {
	since := now.Round(0).Add(-now.Sub(first))
	if set := since.Sub(first.Round(0)).Abs(); set < time.Second { // two clocks are never alike to the nanosecond
		return first.Round(0)
	}
	return since
}

func threshold(t policy.Threshold) Threshold {
	row := Threshold{Signal: t.Signal, Value: t.Value.String()}
	if !t.Hard() {
		row.GracePeriod = t.GracePeriod.String()
	}
	if t.MinReclaim != nil {
		row.MinReclaim = t.MinReclaim.String()
	}
	if _, builtin := eviction.Builtin(t.Signal); !builtin {
		d := t.Definition()
		row.Custom = &CustomSignal{Unit: d.Unit, Format: d.Format, Resource: d.Resource, Condition: d.Condition, RankedOnly: d.Candidates == eviction.RankedPods, Relieves: d.Relieves}
		if d.Condition != "" {
			row.Custom.ReliefTime = policy.ReliefTime(d).String()
		}
	}
	return row
}

// Act marks the threshold that is acted on.
func (d *Decision) Act(acted policy.Threshold) {
	row := threshold(acted)
	d.Thresholds = slices.Clone(d.Thresholds)
	for i := range d.Thresholds {
		t := &d.Thresholds[i]
		t.Acted = t.Signal == row.Signal && t.Value == row.Value && t.GracePeriod == row.GracePeriod
	}
}

// Acted returns the threshold that is acted on, nil if none is.
func (d *Decision) Acted() *Threshold {
	for i := range d.Thresholds {
		if d.Thresholds[i].Acted {
			return &d.Thresholds[i]
		}
	}
	return nil
}

// String formats t: "memory.available<1Gi", with the grace period if there is one.
func (t *Threshold) String() string {
	s := string(t.Signal) + "<" + t.Value
	if !t.Hard() {
		s += " for " + t.GracePeriod
	}
	return s
}

// Hard reports whether t has no grace period.
func (t *Threshold) Hard() bool { return t.GracePeriod == "" }

// Policy converts t to policy's input.
func (t *Threshold) Policy() (policy.Threshold, error) {
	value, err := policy.ParseValue(t.Value)
	if err != nil {
		return policy.Threshold{}, fmt.Errorf("value: %w", err)
	}
	out := policy.Threshold{Signal: t.Signal, Value: value}
	if t.GracePeriod != "" {
		if out.GracePeriod, err = time.ParseDuration(t.GracePeriod); err != nil || out.GracePeriod < 0 {
			return policy.Threshold{}, fmt.Errorf("gracePeriod: %.100q, want one such as 30s", t.GracePeriod)
		}
	}
	if t.MinReclaim != "" {
		least, err := policy.ParseValue(t.MinReclaim)
		if err != nil {
			return policy.Threshold{}, fmt.Errorf("minReclaim: %w", err)
		}
		out.MinReclaim = &least
	}
	if c := t.Custom; c != nil && *c != (CustomSignal{}) {
		relief, _ := time.ParseDuration(c.ReliefTime) // on error the default
		out.Custom = &eviction.Definition{Unit: c.Unit, Format: c.Format, Resource: c.Resource, Condition: c.Condition, ReliefTime: relief, Relieves: c.Relieves}
		if c.RankedOnly {
			out.Custom.Candidates = eviction.RankedPods
		}
	}
	return out, nil
}

// Waits describes what further evictions wait for.
func Waits(w policy.Wait) string {
	victims := strings.Join(w.Victims, ", ")
	if w.For == policy.WaitForPace {
		return "waits for the kubelet's pace after " + victims + ": " + w.Reason
	}
	return "waits for the " + w.For + " of " + victims
}
