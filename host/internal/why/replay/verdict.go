package replay

import (
	"errors"
	"fmt"
	"slices"
)

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

// errNothingRecorded reports a scenario without recorded decisions.
var errNothingRecorded = errors.New("no decisions are recorded in it, nothing to check against")

// Check judges a replay of t, which failed to run if err is not nil.
func Check(t *Trace, r *Replay, err error) Verdict {
	switch {
	case err != nil:
		return Verdict{Failed, err.Error()}
	case t.Decisions == nil:
		return Verdict{Failed, errNothingRecorded.Error()}
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

// panicked reports whether the recorded manager crashed.
func (d *Decisions) panicked() bool {
	return slices.ContainsFunc(d.Steps, func(s StepDecision) bool {
		return slices.ContainsFunc(s.Outcomes, func(o Outcome) bool { return o.Panic != "" })
	})
}
