package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/loop"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

// labelWidth is the width of the label column.
const labelWidth = 11

// Timeline describes what happened in the trace's scenario, step by step, compared with the
// recorded decisions if any.
func Timeline(t *Trace, r *Replay) []byte {
	w := &timeline{scenario: t.Scenario}
	w.head()
	if refused := r.Decisions.ConfigError; refused != "" {
		for line := range strings.Lines(refused) {
			w.line("refused", "%s", strings.TrimSpace(line))
		}
		w.recorded(t, r, -1)
		return w.b.Bytes()
	}
	for i := range r.Decisions.Steps {
		w.step(i, &r.Decisions.Steps[i], &r.Passes[i])
		w.recorded(t, r, i)
	}
	return w.b.Bytes()
}

type timeline struct {
	scenario *Scenario
	// signals holds those with a threshold.
	signals []eviction.Signal
	b       bytes.Buffer
	label   string // of the line before
}

// line writes a line. Consecutive lines with the same label show it once.
func (w *timeline) line(label, format string, args ...any) {
	shown := label
	if label == w.label {
		shown = ""
	}
	w.label = label
	text := oneLine(fmt.Sprintf(format, args...))
	w.b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s %s", labelWidth, shown, text), " ") + "\n")
}

func (w *timeline) heading(format string, args ...any) {
	w.label = ""
	w.b.WriteString(strings.TrimRight(oneLine(fmt.Sprintf(format, args...)), " ") + "\n")
}

func (w *timeline) head() {
	s := w.scenario
	w.heading("%s", s.Name)
	if s.Description != "" {
		w.line("about", "%s", s.Description)
	}
	w.line("node", "%s, filesystem layout %s, %s", s.NodeName, s.FilesystemLayout, count(len(s.Pods), "pod"))
	if len(s.Quirks) > 0 {
		w.line("quirks", "%s: accidents of the kubelet that what was recorded depends on", strings.Join(s.Quirks, ", "))
	}
	c, err := Configuration(s)
	if err != nil {
		return
	}
	thresholds, _ := c.Thresholds() // already validated
	for _, t := range thresholds {
		w.line("thresholds", "%s", describe(t))
		if !slices.Contains(w.signals, t.Signal) {
			w.signals = append(w.signals, t.Signal)
		}
	}
}

// unobserved reports signals that have a threshold but were not observed.
func (w *timeline) unobserved(pass *loop.PassResult) {
	for _, s := range w.signals {
		if !slices.ContainsFunc(pass.Observations, func(o decision.Observation) bool { return o.Signal == s }) {
			w.line("observed", "%s not at all, no running plugin observes it: its thresholds have no effect", s)
		}
	}
}

func describe(t policy.Threshold) string {
	text := t.String() + ", soft"
	if t.Hard() {
		text = t.String() + ", hard"
	}
	if t.MinReclaim != nil {
		text += ", then " + t.MinReclaim.String() + " more"
	}
	return text
}

func (w *timeline) step(i int, d *StepDecision, pass *loop.PassResult) {
	step := &w.scenario.Steps[i]
	w.heading("\nstep %d  %s  +%gs  %s", i, format.Clock(d.Now.Time), step.AdvanceSeconds, step.Note)
	w.changes(step)
	for _, s := range pass.Observations {
		w.line("observed", "%s", observation(&pass.Decision, s))
	}
	if d.Error == "" {
		w.unobserved(pass)
	}
	for i := range pass.Thresholds {
		if t := &pass.Thresholds[i]; t.Since != nil {
			w.line("met", "%s", met(t, d.Now.Time))
		}
	}
	if d.Error != "" {
		w.line("error", "%s", d.Error)
	}
	w.line("conditions", "%s", cmp.Or(strings.Join(d.NodeConditions, ", "), "none"))
	w.reclaim(d, pass)
	w.ranking(pass)
	w.evictions(d, pass)
	w.events(d)
	for _, a := range d.Admit {
		if a.Admit {
			w.line("admit", "%s: admitted", a.Name)
		} else {
			w.line("admit", "%s: rejected, %s: %s", a.Name, a.Reason, a.Message)
		}
	}
}

func (w *timeline) changes(step *Step) {
	for _, uid := range step.RemovePods {
		w.line("pods", "%s is gone", uid)
	}
	for _, p := range step.UpdatePods {
		w.line("pods", "%s/%s has changed", p.Namespace, p.Name)
	}
	for _, p := range step.AddPods {
		w.line("pods", "%s/%s is new", p.Namespace, p.Name)
	}
	switch {
	case step.SummaryError != "":
		w.line("figures", "none: %s", step.SummaryError)
	case step.Summary == nil:
		w.line("figures", "those of the step before")
	}
}

// met describes a met threshold: since when, and whether it is actionable.
func met(t *decision.Threshold, now time.Time) string {
	text := fmt.Sprintf("%s<%s since %s", t.Signal, t.Value, format.Clock(*t.Since))
	switch {
	case t.Hard():
		text += ", hard"
	case t.GraceOver:
		text += ", soft, grace period of " + t.GracePeriod + " over"
	default:
		return text + fmt.Sprintf(", soft, %v of its grace period of %s over", now.Sub(*t.Since), t.GracePeriod)
	}
	switch {
	case t.Acted:
		return text + ": acted on"
	case t.Actionable:
		return text + ": not acted on in this pass"
	default:
		return text + ": not acted on, its figures are not newer"
	}
}

func (w *timeline) reclaim(d *StepDecision, pass *loop.PassResult) {
	for _, r := range pass.Reclaim {
		text := r.Step + " by " + r.By
		if slices.Contains([]string{stepContainerGC, stepImageGC}, r.Step) {
			text = r.Step + " as the scenario says"
		}
		if r.Err != "" {
			text += ": " + r.Err
		}
		if r.NotRun != "" {
			text += ": not run, " + r.NotRun
		}
		w.line("reclaim", "%s", text)
	}
	switch {
	case pass.ReclaimSufficed:
		w.line("reclaim", "every threshold is satisfied now, no pod has to go")
	case len(d.Outcomes[0].ReclaimCalls) > 0:
		w.line("reclaim", "not every threshold is satisfied, a pod has to go")
	}
}

// ranking shows the candidates in order, each with the reason why it precedes the next one.
func (w *timeline) ranking(pass *loop.PassResult) {
	lines := tell.Ranking(&pass.Decision)
	if len(lines) == 0 {
		return
	}
	w.line("ranking", "of %s by %s", count(len(pass.Order), "candidate"), pass.Ranker.Name)
	for _, line := range lines {
		w.line("ranking", "%s", line)
	}
	if first := &pass.Candidates[pass.Order[0]]; first.Reason != "" {
		w.line("ranking", "%s is first: %s", first.Pod, first.Reason)
	}
}

func (w *timeline) evictions(d *StepDecision, pass *loop.PassResult) {
	out := &d.Outcomes[0]
	if len(out.Evictions) == 0 && pass.Acted() != nil && !pass.ReclaimSufficed {
		w.line("evicted", "none: no pod may go")
	}
	for i, e := range out.Evictions {
		var label eviction.Signal
		if i < len(pass.Evicted) {
			label = pass.Evicted[i].Signal
		}
		w.line("evicted", "%s/%s for %s, grace period %ds", e.Namespace, e.Name, label, max(1, e.GracePeriodSeconds)) // the minimum grace of a kill
		w.line("evicted", "  %s", e.Message)
		if e.KillError != "" {
			w.line("evicted", "  the kill returned: %s", e.KillError)
		}
	}
	if s := out.CleanupWaitSeconds; s != nil {
		w.line("clean-up", "waited for %gs", *s)
	}
}

func (w *timeline) events(d *StepDecision) {
	for _, e := range d.Outcomes[0].Events {
		w.line("event", "%s %s on %s %s: %s", e.Type, e.Reason, strings.ToLower(e.Kind), e.Name, e.Message)
		for _, key := range sortedKeys(e.Annotations) {
			w.line("event", "  %s=%s", key, e.Annotations[key])
		}
	}
}

// recorded says whether step i, or the configuration if i is -1, matches what was recorded.
func (w *timeline) recorded(t *Trace, r *Replay, i int) {
	if t.Decisions == nil || i >= len(t.Decisions.Steps) {
		return
	}
	var d *Difference
	if i < 0 || t.Decisions.ConfigError != "" {
		d = compareConfig(t.Scenario, r.Decisions, t.Decisions)
	} else {
		d = compareStep(&r.Decisions.Steps[i], &t.Decisions.Steps[i])
	}
	if d == nil {
		w.line("recorded", "the same")
		return
	}
	w.line("recorded", "not the same, %s", d)
}

func observation(d *decision.Decision, s decision.Observation) string {
	text := string(s.Signal) + " "
	if s.State != decision.StateObserved {
		text += s.State
	} else {
		text += fmt.Sprintf("%s of %s", format.AmountIn(d, s.Signal, s.Available), format.AmountIn(d, s.Signal, s.Capacity))
		if s.Capacity > 0 {
			text += fmt.Sprintf(" (%.4g%%)", 100*float64(s.Available)/float64(s.Capacity))
		}
	}
	if s.Err != "" {
		text += ": " + s.Err
	}
	return text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// oneLine keeps texts of a file from breaking lines or the terminal, but for our own leading line feeds.
func oneLine(s string) string {
	own := len(s) - len(strings.TrimLeft(s, "\n"))
	return s[:own] + printable.Text(s[own:])
}
