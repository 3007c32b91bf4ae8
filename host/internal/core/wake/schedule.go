package wake

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// firstRetry is the wait before a pass that follows one with figures missing; it
// doubles up to the monitoring interval.
const firstRetry = 100 * time.Millisecond

// A Scope says which signals a pass observes and why.
type Scope struct {
	// Full passes look at every signal, others at those of Woken, which has the causes
	// by condition.
	Full  bool
	Woken map[eviction.Condition]string
}

// Trigger returns why a pass with this scope runs.
func (s Scope) Trigger() string {
	if s.Full {
		return "interval"
	}
	return "wake"
}

// Causes returns the causes of the wakes, for people.
func (s Scope) Causes() string { return strings.Join(slices.Sorted(maps.Values(s.Woken)), ",") }

// Crossing reports whether a plugin says that a threshold was crossed.
func (s Scope) Crossing() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(s.Woken)), func(cause string) bool { return cause != CauseWatchStarted })
}

// A Schedule says when the next pass runs and what it looks at. It is pure: the code that
// calls has the clock. The zero Schedule is to look at everything.
type Schedule struct {
	full    time.Time // when the next full pass runs
	retry   time.Duration
	pending map[eviction.Condition]string
	limits  map[eviction.Condition]*limiter
}

// Look has everything looked at by then.
func (s *Schedule) Look(at time.Time) {
	if at.Before(s.full) {
		s.full = at
	}
}

// Wake enters wakes, by condition and with their causes.
func (s *Schedule) Wake(woken map[eviction.Condition]string) {
	if s.pending == nil {
		s.pending = map[eviction.Condition]string{}
	}
	maps.Copy(s.pending, woken)
}

// Due returns what the pass looks at that should run now, if one should.
func (s *Schedule) Due(now time.Time) (Scope, bool) {
	due := Scope{Full: !s.full.After(now), Woken: map[eviction.Condition]string{}}
	for c, cause := range s.pending {
		if due.Full || !s.limit(c).earliest(now).After(now) {
			due.Woken[c] = cause
			delete(s.pending, c)
		}
	}
	return due, due.Full || len(due.Woken) > 0
}

// Next returns when something becomes due.
func (s *Schedule) Next(now time.Time) time.Time {
	at := s.full
	for c := range s.pending {
		if t := s.limit(c).earliest(now); t.Before(at) {
			at = t
		}
	}
	return at
}

// Hold puts the next pass for a wake of c off for a while: it was looked at now, and
// looking again at once would find the same.
func (s *Schedule) Hold(c eviction.Condition, now time.Time) { s.limit(c).hold(now) }

// Forget drops what is known of wakes of c.
func (s *Schedule) Forget(c eviction.Condition) { delete(s.limits, c) }

func (s *Schedule) limit(c eviction.Condition) *limiter {
	if s.limits == nil {
		s.limits = map[eviction.Condition]*limiter{}
	}
	if s.limits[c] == nil {
		s.limits[c] = newLimiter()
	}
	return s.limits[c]
}

// A Result holds the parts of a pass's outcome on which the next one depends.
type Result struct {
	Scope Scope
	// Met: thresholds are met. Incomplete: figures were missing, or it could not act.
	Met, Incomplete bool
	// GraceLeft is the time until the first grace period ends, 0 if none runs.
	GraceLeft time.Duration
	// LookAt has other reasons to look at everything, zero for none.
	LookAt []time.Time
}

// Ended plans the pass after one that ended at now: after the interval, at the end of
// a grace period that is running, or soon when figures were missing. A pass that was
// not full itself never puts the next full one off: a plugin that keeps waking one condition
// must not keep the host from looking at the others.
func (s *Schedule) Ended(now time.Time, interval time.Duration, r Result) {
	for c := range r.Scope.Woken {
		s.limit(c).ran(now, r.Met)
	}
	if r.Scope.Full {
		s.full = now.Add(interval)
	}
	switch {
	case r.Incomplete:
		s.retry = min(max(2*s.retry, firstRetry), interval)
		s.Look(now.Add(s.retry))
	case r.Scope.Full:
		s.retry = 0
	}
	if r.GraceLeft > 0 {
		s.Look(now.Add(r.GraceLeft))
	}
	for _, at := range r.LookAt {
		if !at.IsZero() {
			s.Look(at)
		}
	}
}
