package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// blindFor is how long a signal must have been unknown before the host reads
	// it by itself.
	blindFor = time.Second
	// lastResortDeadline bounds what the host reads by itself in one look.
	lastResortDeadline = 500 * time.Millisecond
)

// A LastResort reads figures of the node without a plugin.
type LastResort interface {
	// Reads reports whether s is one that it can read.
	Reads(s eviction.Signal) bool
	// Observe returns one observation of each signal when ctx ends at the latest.
	Observe(ctx context.Context, signals []eviction.Signal) []eviction.Observation
	// Measure returns what pods use of s, of those that it can read, when ctx ends
	// at the latest.
	Measure(ctx context.Context, s eviction.Signal, pods []eviction.Pod) []eviction.Measurement
}

// blindness is a signal with a hard threshold that no plugin observes although
// one should.
type blindness struct {
	// since is when the first look began that found nothing.
	since time.Time
	// reading: the host reads it by itself.
	reading bool
}

// standIn reads signals by itself that no plugin has observed for a while: the node
// is not to run out of what a broken plugin does not see. began is when the
// plugins were first asked. It leaves spared to their sources, and says by whom a
// signal was observed.
func (l *Loop) standIn(ctx context.Context, began time.Time, signals []eviction.Signal, spared map[eviction.Signal]bool, got map[eviction.Signal]eviction.Observation) {
	var due []eviction.Signal
	for _, s := range signals {
		o, ok := got[s]
		if !ok || o.State != eviction.Unknown || spared[s] || !l.standsInFor(s) {
			l.seeing(s)
			continue
		}
		b := l.blind[s]
		if b == nil {
			b = &blindness{since: began}
			l.blind[s] = b
		}
		if time.Since(b.since) >= blindFor {
			due = append(due, s)
		}
	}
	if len(due) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastResortDeadline)
	defer cancel()
	for _, o := range l.LastResort.Observe(ctx, due) {
		why := got[o.Signal].Err
		if o.State == eviction.Unknown {
			o.Err = why + "; read by the host itself: " + o.Err
		} else {
			l.observers[o.Signal] = hostItself
		}
		got[o.Signal] = o
		if b := l.blind[o.Signal]; !b.reading {
			b.reading = true
			l.Log.Warn("no plugin observes the signal, the host reads it by itself", "signal", o.Signal, "plugin", why, "error", o.Err)
		}
		l.Metrics.ReadByHost(o.Signal, o.State != eviction.Unknown)
	}
}

// byHost has the host measure the pods by itself that no plugin has measured: by
// priority alone the wrong one would go. What a source says that stands is left so.
func (m *measuring) byHost(ctx context.Context, candidates []pods.Pod) {
	l := m.loop
	missing := m.missing(candidates)
	if l.LastResort == nil || len(missing) == 0 || l.SourceStands && m.heard {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastResortDeadline)
	defer cancel()
	answers := l.LastResort.Measure(ctx, m.signal, rowsOf(missing, eviction.DetailPod))
	for _, a := range answers {
		m.take(a)
	}
	if len(answers) > 0 {
		l.Log.Warn("no plugin has measured these pods, the host does it by itself", "signal", m.signal, "pods", len(answers), "of", len(candidates))
	}
	m.done = time.Now()
}

// confirm has the host look at signals of q that a custom plugin alone has observed: the
// built-in one, which is to be asked beside it, is gone or does not answer. What the
// kubelet's summary says the host does not know.
func (l *Loop) confirm(ctx context.Context, q *inquiry) {
	if l.LastResort == nil || l.SourceStands {
		return
	}
	alone := slices.DeleteFunc(q.unconfirmed(), func(s eviction.Signal) bool { return !l.LastResort.Reads(s) })
	if len(alone) == 0 || ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastResortDeadline)
	defer cancel()
	for _, o := range l.LastResort.Observe(ctx, alone) {
		q.add(policy.Claim{Observation: o, By: hostItself})
	}
}

// standsInFor reports whether s is to be read by the host for want of a plugin.
func (l *Loop) standsInFor(s eviction.Signal) bool {
	return l.LastResort != nil && l.LastResort.Reads(s) && slices.ContainsFunc(l.filesystems.inForce, func(t policy.Threshold) bool {
		return t.Signal == s && t.Hard()
	})
}

// seeing ends the blindness for s, if there was one.
func (l *Loop) seeing(s eviction.Signal) {
	b := l.blind[s]
	if b == nil {
		return
	}
	delete(l.blind, s)
	if b.reading {
		l.Metrics.ReadByHost(s, false)
		l.Log.Info("the host reads the signal by itself no longer", "signal", s)
	}
}

// blindLook is when the first signal is to be read by the host that no plugin
// observes, after a pass that ended at now; zero if there is none. As nobody watches
// such a signal either, the host looks often.
func (l *Loop) blindLook(now time.Time) time.Time {
	var soonest time.Time
	for _, b := range l.blind {
		at := now.Add(blindFor)
		if !b.reading {
			at = b.since.Add(blindFor)
		}
		if soonest.IsZero() || at.Before(soonest) {
			soonest = at
		}
	}
	return soonest
}
