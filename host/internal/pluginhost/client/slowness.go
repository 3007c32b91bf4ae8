package client

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// promptShare: an answer within this fraction of its deadline costs nothing.
	promptShare = 10
	// SlowWindow is a minute; mostDelay is how much slow answers may cost in it, a twentieth;
	// slowCalls is their minimum number, since a single one is no pattern.
	SlowWindow = time.Minute
	mostDelay  = SlowWindow / 20
	slowCalls  = 2
	// StandbyFor is the time for which a slow plugin is then asked after all others.
	StandbyFor = 10 * time.Minute
)

// delayCost returns the part of an answer's time that counts as delay.
func delayCost(took, limit time.Duration) time.Duration {
	return max(0, min(took, limit)-limit/promptShare)
}

// A Slowness sums up the recent delays of one plugin's answers, which evictions wait for. A plugin
// that stays just below its deadlines costs as much as one that hangs, but never counts as missed.
type Slowness struct {
	delays []delay // of SlowWindow
	// Until is the end of standby, zero for none; Cost is the delay that caused it.
	Since, Until time.Time
	Cost         time.Duration
}

type delay struct {
	at   time.Time
	cost time.Duration
}

// Add counts an answer with that delay at now, and reports whether it puts the plugin on standby:
// at once if it used up the time of a decision.
func (s *Slowness) Add(now time.Time, cost time.Duration, overspent bool) bool {
	if cost <= 0 || s.Standby() {
		return false
	}
	s.delays = slices.DeleteFunc(s.delays, func(d delay) bool { return now.Sub(d.at) >= SlowWindow || d.at.After(now) })
	s.delays = append(s.delays, delay{now, cost})
	var sum time.Duration
	for _, d := range s.delays {
		sum += d.cost
	}
	if !overspent && (sum <= mostDelay || len(s.delays) < slowCalls) {
		return false
	}
	*s = Slowness{Since: now, Until: now.Add(StandbyFor), Cost: sum}
	return true
}

// Standby reports whether the plugin is asked after all others.
func (s *Slowness) Standby() bool { return !s.Until.IsZero() }

// Over ends a standby that has expired, and reports whether it did.
func (s *Slowness) Over(now time.Time) bool {
	if !s.Standby() || now.Before(s.Until) {
		return false
	}
	*s = Slowness{}
	return true
}

// tardy reports whether an action of this process that was due after limit came much too late: the
// process was stopped, suspended or thrashing. Then neither did the plugin run, or its answer is
// unread in the socket.
func tardy(took, limit time.Duration) bool {
	return took > limit+max(limit/4, 50*time.Millisecond)
}

// A stopwatch times a call, and detects whether this process ran meanwhile: a slow machine is not
// the plugin's fault.
type stopwatch struct {
	start time.Time
	due   time.Duration
	timer *time.Timer
	late  atomic.Bool
}

func startWatch(limit time.Duration) *stopwatch {
	w := &stopwatch{start: time.Now(), due: limit / promptShare}
	w.timer = time.AfterFunc(w.due, func() { w.late.Store(tardy(time.Since(w.start), w.due)) })
	return w
}

// stop returns the duration of the call, and whether this process itself was late.
func (w *stopwatch) stop(limit time.Duration) (took time.Duration, late bool) {
	took = time.Since(w.start)
	pending := w.timer.Stop()
	return took, w.late.Load() || pending && tardy(took, w.due) || tardy(took, limit)
}
