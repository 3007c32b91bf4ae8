package client

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
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

// Timeouts are the deadlines of calls. A caller's earlier deadline wins. Zero fields take the
// defaults of package eviction.
type Timeouts struct {
	// Handshake is the time from the start of the process until it can be called. Like Describe and
	// Configure it doubles with each consecutive late start, three times at most.
	Handshake time.Duration
	// Start bounds the wait of the host for the plugins found at its start, and of custom ones for
	// each other: 3 s. One that hangs must not delay the rest until its handshake times out.
	Start     time.Duration
	Describe  time.Duration
	Configure time.Duration
	Observe   time.Duration
	Measure   time.Duration
	Rank      time.Duration
	// ReclaimIdle bounds the time without progress of a reclaim step, Reclaim its total time.
	ReclaimIdle time.Duration
	Reclaim     time.Duration
	// Stop is the time between SIGTERM and SIGKILL.
	Stop time.Duration
}

// AtLeast raises every deadline, including that of the start, to at least d.
func (t Timeouts) AtLeast(d time.Duration) Timeouts {
	t = t.WithDefaults()
	for _, limit := range []*time.Duration{&t.Handshake, &t.Start, &t.Describe, &t.Configure, &t.Observe, &t.Measure, &t.Rank} {
		*limit = max(*limit, d)
	}
	return t
}

// WithDefaults fills in the fields that are zero.
func (t Timeouts) WithDefaults() Timeouts {
	return Timeouts{
		Handshake:   cmp.Or(t.Handshake, eviction.HandshakeDeadline),
		Start:       cmp.Or(t.Start, 3*time.Second),
		Describe:    cmp.Or(t.Describe, eviction.DescribeDeadline),
		Configure:   cmp.Or(t.Configure, eviction.ConfigureDeadline),
		Observe:     cmp.Or(t.Observe, eviction.ObserveDeadline),
		Measure:     cmp.Or(t.Measure, eviction.MeasureDeadline),
		Rank:        cmp.Or(t.Rank, eviction.RankDeadline),
		ReclaimIdle: cmp.Or(t.ReclaimIdle, eviction.ReclaimIdleDeadline),
		Reclaim:     cmp.Or(t.Reclaim, eviction.ReclaimDeadline),
		Stop:        cmp.Or(t.Stop, eviction.StopDeadline),
	}
}

// missesToKill is the number of consecutive unanswered calls after which a plugin is killed.
const missesToKill = 3

// A verdict says whether a call shows that the plugin is alive.
type verdict uint8

const (
	// excused is neutral: the caller gave up early, or the host itself was late.
	excused verdict = iota
	answered
	missed
)

// judge classifies a call that ended with err after took, with a time limit of limit, of which a
// caller's own deadline may have taken a little.
func judge(err error, took, limit time.Duration) verdict {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		if took < limit-limit/promptShare || tardy(took, limit) {
			return excused
		}
		return missed
	case errors.Is(err, context.Canceled):
		return excused
	case errors.Is(err, eviction.ErrUnavailable):
		return missed
	default:
		return answered
	}
}

// misses counts unanswered calls, in total and per kind: a plugin that always hangs in Rank must
// not be saved by its observations in between.
type misses struct {
	all  int
	kind map[string]int
}

// add counts one call and reports whether there were too many consecutive misses.
func (m *misses) add(kind string, v verdict) bool {
	if m.kind == nil {
		m.kind = map[string]int{}
	}
	switch v {
	case answered:
		m.all, m.kind[kind] = 0, 0
	case missed:
		m.all++
		m.kind[kind]++
	case excused:
	}
	return m.all >= missesToKill || m.kind[kind] >= missesToKill
}
