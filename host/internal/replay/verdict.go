package replay

import (
	"errors"
	"fmt"
	"slices"
)

// A Result compares a replay with the record.
type Result int

// The results.
const (
	// Passed decided as recorded.
	Passed Result = iota
	// Failed decided otherwise, or not at all.
	Failed
	// Skipped has quirks: what was recorded need not be decided.
	Skipped
)

// A Verdict is the result of a trace and, unless it passed, why.
type Verdict struct {
	Result Result
	Why    string
}

// errNothingRecorded is the fault of a scenario that is to be checked.
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

// tell returns d with the note of its step.
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
