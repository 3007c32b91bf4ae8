// Package replay runs a scenario step by step through a complete eviction manager. It reports the
// decisions, and compares them with recorded ones. A scenario has pods, figures and errors.
//
// It simulates the clock, the pods, the figures, the runtime and the kills of a scenario; it
// decides nothing itself and knows no rule of eviction. The caller provides the manager: package
// host with real plugin processes in evictctl replay, with in-process plugins in tests.
package replay

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/shared/eviction"
)

// oracle identifies this manager in Decisions.
const oracle = "evictd"

// operator is the only operator of thresholds.
const operator = "LessThan"

// A Replay is the result of a scenario.
type Replay struct {
	Decisions *Decisions
	// Passes holds the manager's result of each step.
	Passes []loop.PassResult
}

// Run makes a manager with start and takes it through the scenario. A refused configuration counts
// as a decision; the error reports a manager that could not run.
func Run(ctx context.Context, s *Scenario, log *slog.Logger, start Start) (*Replay, error) {
	r := &Replay{Decisions: &Decisions{SchemaVersion: SchemaVersion, Oracle: oracle, Scenario: s.Name, Steps: []StepDecision{}}}
	c, err := Configuration(s)
	if err != nil {
		r.Decisions.ConfigError = err.Error()
		if lines := strings.Split(err.Error(), "\n"); len(lines) > 1 {
			r.Decisions.ConfigErrors = lines
		}
		return r, nil
	}
	w := newWorld(s)
	w.Config, w.Log = c, log
	m, stop, err := start(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("%s: start the manager: %w", s.Name, err)
	}
	defer stop()
	for i := range s.Steps {
		w.begin(&s.Steps[i])
		d, pass := w.run(ctx, m)
		if err := context.Cause(ctx); err != nil {
			return nil, fmt.Errorf("%s: step %d: %w", s.Name, i, err)
		}
		r.Decisions.Steps = append(r.Decisions.Steps, d)
		r.Passes = append(r.Passes, pass)
	}
	return r, nil
}

// Configuration returns the manager's configuration in the scenario. The error lists every problem.
func Configuration(s *Scenario) (config.Config, error) {
	c := config.Default()
	c.NodeName = s.NodeName
	c.Pacing, c.Layout = config.PacingKubelet, config.LayoutKubelet
	c.KernelMemcgNotification = false
	c.EvictionHard, c.EvictionSoft = s.Config.EvictionHard, s.Config.EvictionSoft
	c.EvictionSoftGracePeriod = s.Config.EvictionSoftGracePeriod
	c.EvictionMinimumReclaim = s.Config.EvictionMinimumReclaim
	c.EvictionMaxPodGracePeriod = s.Config.EvictionMaxPodGracePeriod
	c.EvictionPressureTransitionPeriod = s.Config.EvictionPressureTransitionPeriod
	c.EnforceNodeAllocatable = s.Config.EnforceNodeAllocatable
	c.LocalStorageCapacityIsolation = s.Config.LocalStorageCapacityIsolation
	c.FeatureGates = s.Config.FeatureGates
	c.Compatibility = cmp.Or(s.Config.Compatibility, c.Compatibility)
	c.Plugins = map[string]config.Plugin{}
	for name, p := range s.Config.Plugins {
		c.Plugins[name] = config.Plugin{Config: p.Config}
	}
	if err := c.Validate(); err != nil {
		return config.Config{}, err
	}
	return c, nil
}

// With replaces the thresholds and the plugins' settings of a scenario by those of a configuration.
func With(s *Scenario, c *config.Config) {
	s.Changed = true
	s.Config.EvictionHard, s.Config.EvictionSoft = c.EvictionHard, c.EvictionSoft
	s.Config.EvictionSoftGracePeriod, s.Config.EvictionMinimumReclaim = c.EvictionSoftGracePeriod, c.EvictionMinimumReclaim
	s.Config.EvictionMaxPodGracePeriod, s.Config.EnforceNodeAllocatable = c.EvictionMaxPodGracePeriod, c.EnforceNodeAllocatable
	s.Config.Plugins = map[string]Plugin{}
	for name, p := range c.Plugins {
		s.Config.Plugins[name] = Plugin{Config: p.Config}
	}
}

// run performs the manager's part of a step.
func (w *World) run(ctx context.Context, m Manager) (StepDecision, loop.PassResult) {
	pass, err := m.Synchronize(ctx)
	d := StepDecision{Now: metav1.NewTime(w.Now())}
	if err != nil {
		d.Error = err.Error()
	}
	d.MemoryPressure, d.DiskPressure, d.PIDPressure = m.IsUnderMemoryPressure(), m.IsUnderDiskPressure(), m.IsUnderPIDPressure()
	d.NodeConditions = conditions(pass, err, d)
	explain(&d, pass)
	_, awaited := w.step.Cleanup()
	if awaited = awaited && len(pass.Evicted) > 0 && err == nil; awaited {
		_ = m.AwaitCleanup(ctx, pass) // Run checks ctx itself
	}
	for _, p := range w.step.Admit {
		answer := m.Admit(p)
		d.Admit = append(d.Admit, Admit{UID: string(p.UID), Name: p.Name, Admit: answer.Admit, Reason: answer.Reason, Message: answer.Message})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.did
	for _, e := range pass.Evicted {
		out.Signals, out.Returned = append(out.Signals, string(e.Signal)), append(out.Returned, e.UID)
	}
	if awaited {
		out.CleanupWaitSeconds = new(w.waited.Seconds())
	}
	d.Outcomes = []Outcome{out}
	if w.calls > 0 {
		d.SummaryCalls = []int{w.calls}
	}
	return d, pass
}

// conditions returns the reported conditions, sorted. A failed pass leaves the former ones.
func conditions(pass loop.PassResult, err error, d StepDecision) []string {
	var out []string
	if err == nil {
		for _, c := range pass.Conditions {
			out = append(out, string(c))
		}
	} else {
		for c, under := range map[eviction.Condition]bool{
			eviction.MemoryPressure: d.MemoryPressure, eviction.DiskPressure: d.DiskPressure, eviction.PIDPressure: d.PIDPressure,
		} {
			if under {
				out = append(out, string(c))
			}
		}
	}
	slices.Sort(out)
	return out
}

// explain fills in the thresholds that were met, the most urgent first.
func explain(d *StepDecision, pass loop.PassResult) {
	thresholds := slices.DeleteFunc(slices.Clone(pass.Thresholds), func(t decision.Threshold) bool { return t.Since == nil })
	slices.SortStableFunc(thresholds, func(a, b decision.Threshold) int {
		return cmp.Or(cmp.Compare(urgency(&a), urgency(&b)), cmp.Compare(a.Signal, b.Signal))
	})
	for _, t := range thresholds {
		text := textOf(&t)
		d.Observed = append(d.Observed, ObservedThreshold{Threshold: text, FirstObservedAt: metav1.NewTime(*t.Since)})
		if t.GraceOver {
			d.Met = append(d.Met, text)
		}
		if t.Actionable {
			d.Actionable = append(d.Actionable, text)
		}
	}
}

// textOf returns t in the format of traces, where a minimum reclaim in percent ends in x.
func textOf(t *decision.Threshold) Threshold {
	text := Threshold{Signal: string(t.Signal), Operator: operator, GracePeriod: t.GracePeriod}
	p, err := t.Policy()
	if err != nil { // the manager's own
		return text
	}
	text.Quantity, text.Percentage = p.Value.Texts()
	if p.MinReclaim != nil {
		quantity, percentage := p.MinReclaim.Texts()
		if text.MinReclaim = quantity; p.MinReclaim.IsPercentage {
			text.MinReclaim = percentage + "x"
		}
	}
	return text
}

// urgency sorts memory first, and hard thresholds before soft ones.
func urgency(t *decision.Threshold) int {
	u := 0
	if d, _ := eviction.Builtin(t.Signal); d.Condition != eviction.MemoryPressure {
		u += 2
	}
	if !t.Hard() {
		u++
	}
	return u
}

// A Result is the outcome of comparing a replay with the record.
type Result int

// The results.
const (
	// Passed: the decisions match the record.
	Passed Result = iota
	// Failed: they do not match, or the replay failed.
	Failed
	// Skipped: the record has quirks, which need not be reproduced.
	Skipped
)

// A Verdict is the result of a trace and, unless it passed, the reason.
type Verdict struct {
	Result Result
	Why    string
}

// Check judges a replay of t, which failed to run if err is not nil.
func Check(t *Trace, r *Replay, err error) Verdict {
	switch {
	case err != nil:
		return Verdict{Failed, err.Error()}
	case t.Decisions == nil:
		return Verdict{Failed, "no decisions are recorded in it, nothing to check against"}
	}
	d := Compare(t.Scenario, r.Decisions, t.Decisions)
	quirks := len(t.Scenario.Quirks) > 0
	switch {
	case d == nil && !quirks:
		return Verdict{Result: Passed}
	case d == nil && t.Decisions.panicked():
		return Verdict{Skipped, "evictd instead: goes on where the recorded manager panicked"}
	case d == nil:
		return Verdict{Skipped, "evictd decides as recorded"}
	case quirks:
		return Verdict{Skipped, "evictd instead: " + t.Scenario.tell(d)}
	default:
		return Verdict{Failed, t.Scenario.tell(d)}
	}
}

// tell returns the text of d with the note of its step.
func (s *Scenario) tell(d *Difference) string {
	if d.Step >= 0 && d.Step < len(s.Steps) && s.Steps[d.Step].Note != "" {
		return fmt.Sprintf("%s (%s)", d, s.Steps[d.Step].Note)
	}
	return d.String()
}

func (d *Decisions) panicked() bool {
	return slices.ContainsFunc(d.Steps, func(s StepDecision) bool {
		return slices.ContainsFunc(s.Outcomes, func(o Outcome) bool { return o.Panic != "" })
	})
}
