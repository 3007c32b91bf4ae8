package supervisor

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// promptShare is the part of its deadline within which an answer costs nothing.
	promptShare = 10
	// mostDelay is what slow answers may cost in slowWindow, a twentieth of it; slowCalls
	// is how many there must have been: one of them is no habit.
	slowWindow = time.Minute
	mostDelay  = slowWindow / 20
	slowCalls  = 2
	// standbyFor is how long a plugin is then asked after all others.
	standbyFor = 10 * time.Minute
)

// A slowness is what the answers of one plugin have cost lately: the host waits for
// them before it evicts. One that stays just below its deadlines costs as much as one that
// hangs, and is never missed.
type slowness struct {
	delays []delay // of slowWindow
	// until is the end of standby, zero for none; cost is what led to it.
	since, until time.Time
	cost         time.Duration
}

type delay struct {
	at   time.Time
	cost time.Duration
}

// add counts a call that ended at now after took and had limit to be answered, and
// reports whether that puts the plugin on standby.
func (s *slowness) add(now time.Time, took, limit time.Duration) bool {
	cost := min(took, limit) - limit/promptShare
	if cost <= 0 || !s.until.IsZero() {
		return false
	}
	s.delays = slices.DeleteFunc(s.delays, func(d delay) bool { return now.Sub(d.at) >= slowWindow || d.at.After(now) })
	s.delays = append(s.delays, delay{now, cost})
	var sum time.Duration
	for _, d := range s.delays {
		sum += d.cost
	}
	if sum <= mostDelay || len(s.delays) < slowCalls {
		return false
	}
	*s = slowness{since: now, until: now.Add(standbyFor), cost: sum}
	return true
}

// standby reports whether the plugin is to be asked after all others.
func (s *slowness) standby() bool { return !s.until.IsZero() }

// over ends a standby whose time is over, and reports whether it did.
func (s *slowness) over(now time.Time) bool {
	if !s.standby() || now.Before(s.until) {
		return false
	}
	*s = slowness{}
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

// delayed takes note of how long the host has waited for an answer of i, and puts i behind
// all others that offer the same when that is too much. What a pass has pinned stays.
func (s *Supervisor) delayed(i *Instance, w *stopwatch, limit time.Duration, err error) {
	took, late := w.stop(limit)
	if late || errors.Is(err, context.Canceled) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[i.Name]
	if m == nil || m.instance != i || !m.slowness.add(time.Now(), took, limit) {
		return
	}
	s.log.Warn("plugin answers too slowly and is asked after all others", "plugin", m.name, "cost", m.slowness.cost.String(), "within", slowWindow.String(), "for", standbyFor.String())
	s.metrics.PluginStandby(m.name, true)
	s.publish()
}

// endStandbys lets plugins have their place again whose time on standby is over. The
// mutex is held.
func (s *Supervisor) endStandbys(now time.Time) {
	ended := false
	for _, m := range s.members {
		if m.slowness.over(now) {
			s.log.Info("plugin has its place again", "plugin", m.name)
			s.metrics.PluginStandby(m.name, false)
			ended = true
		}
	}
	if ended {
		s.publish()
	}
}

// slow reports whether i is on standby. The mutex is held.
func (s *Supervisor) slow(i *Instance) bool {
	m := s.members[i.Name]
	return m != nil && m.slowness.standby()
}

// waitedFor reports whether the host waits for c before it evicts.
func waitedFor(c eviction.Capability) bool {
	return c == eviction.CanObserve || c == eviction.CanMeasure || c == eviction.CanRank
}
