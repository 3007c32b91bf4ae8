package client

import (
	"slices"
	"sync/atomic"
	"time"
)

const (
	// promptShare is the part of its deadline within which an answer costs nothing.
	promptShare = 10
	// SlowWindow is a minute; mostDelay is what slow answers may cost in it, a twentieth; slowCalls
	// is how many there must have been: one of them is no habit.
	SlowWindow = time.Minute
	mostDelay  = SlowWindow / 20
	slowCalls  = 2
	// StandbyFor is the time for which a plugin is then asked after all others.
	StandbyFor = 10 * time.Minute
)

// delayCost returns the part of an answer's time that counts as delay.
func delayCost(took, limit time.Duration) time.Duration {
	return max(0, min(took, limit)-limit/promptShare)
}

// A Slowness sums up the recent delays of one plugin's answers: the host waits for them before
// it evicts. One that stays just below its deadlines costs as much as one that hangs, and is
// never missed.
type Slowness struct {
	delays []delay // of SlowWindow
	// Until is the end of standby, zero for none; Cost is what led to it.
	Since, Until time.Time
	Cost         time.Duration
}

type delay struct {
	at   time.Time
	cost time.Duration
}

// Add counts an answer at now that the host has waited for at that cost, and
// reports whether that puts the plugin on standby.
func (s *Slowness) Add(now time.Time, cost time.Duration) bool {
	if cost <= 0 || s.Standby() {
		return false
	}
	s.delays = slices.DeleteFunc(s.delays, func(d delay) bool { return now.Sub(d.at) >= SlowWindow || d.at.After(now) })
	s.delays = append(s.delays, delay{now, cost})
	var sum time.Duration
	for _, d := range s.delays {
		sum += d.cost
	}
	if sum <= mostDelay || len(s.delays) < slowCalls {
		return false
	}
	*s = Slowness{Since: now, Until: now.Add(StandbyFor), Cost: sum}
	return true
}

// Standby reports whether the plugin is to be asked after all others.
func (s *Slowness) Standby() bool { return !s.Until.IsZero() }

// Over ends a standby whose time is over, and reports whether it did.
func (s *Slowness) Over(now time.Time) bool {
	if !s.Standby() || now.Before(s.Until) {
		return false
	}
	*s = Slowness{}
	return true
}

// tardy reports whether something of this process that was due after limit came much
// too late: it did not run, being stopped, suspended or thrashing. Neither did the plugin,
// then, or its answer lies unread in the socket.
func tardy(took, limit time.Duration) bool {
	return took > limit+max(limit/4, 50*time.Millisecond)
}

// A stopwatch times a call, and sees whether this process runs meanwhile: what a slow
// machine does is not the plugin's fault.
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

// stop returns how long the call took, and whether this process was late itself.
func (w *stopwatch) stop(limit time.Duration) (took time.Duration, late bool) {
	took = time.Since(w.start)
	pending := w.timer.Stop()
	return took, w.late.Load() || pending && tardy(took, w.due) || tardy(took, limit)
}
