package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// serve returns when the instance serves no more: next is who does in its place,
// nil if nobody does, and then why says why and hung whether it had to be killed.
func (m *member) serve(ctx, host context.Context, i *process) (next *process, hung bool, why error) {
	w := m.whileServing(ctx, i)
	hung, why = m.withdrawn(i)
	if w != nil {
		// What has begun to take over comes sooner than another start.
		if ctx.Err() != nil || m.left() {
			w.cancel()
		}
		<-w.done
		if w.err != nil {
			m.failed(w)
		}
		next = w.instance
	}
	switch {
	case next != nil, errors.Is(why, errLeaves):
		m.supervisor.wg.Go(func() { m.retire(host, i, hung, why) })
	default:
		m.retire(ctx, i, hung, why)
	}
	return next, hung, why
}

// swapPause is how long another attempt at a replacement waits after one that failed
// on a busy node; it doubles up to mostSwapPause.
const (
	swapPause     = 5 * time.Second
	mostSwapPause = 5 * time.Minute
)

// whileServing waits until an instance is out of service, and tries what shall
// replace it meanwhile. It returns the attempt that has replaced it or is still
// under way.
func (m *member) whileServing(ctx context.Context, i *process) *swap {
	var (
		w     *swap
		done  <-chan struct{}
		retry <-chan time.Time
		pause = swapPause
	)
	signal(m.renew) // What it was started from may have changed since.
	for {
		select {
		case <-ctx.Done():
			return w
		case <-i.out:
			return w
		case <-i.conn.proc.Exited():
			return w
		case <-m.renew:
			if w != nil { // What it tries is not what is there.
				w.again = true
				w.cancel()
				continue
			}
			retry, pause = nil, swapPause
		case <-retry:
			retry = nil
		case <-done:
			again := w.again || errors.Is(w.err, errAgain)
			if w.err == nil {
				return w
			}
			if !again {
				m.failed(w)
			}
			switch {
			case again:
			case errors.Is(w.err, plugindir.ErrIncomplete):
				retry = time.After(plugindir.Poll)
			case strained(w.err):
				retry = time.After(pause)
				pause = min(2*pause, mostSwapPause)
			}
			w, done = nil, nil
			if !again {
				continue
			}
		}
		if m.outgrown(i) {
			w = m.trySwap(ctx, i)
			done = w.done
		}
	}
}

// withdrawn takes an instance that has ended, or is to end, out of service, unless
// another has taken its place, and returns why.
func (m *member) withdrawn(i *process) (hung bool, why error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if ending := i.conn.proc.Ending(); ending != "" {
		why = fmt.Errorf("exited by itself (%s)", ending)
	}
	if i.condemned != nil && (why == nil || harmless(i.condemned.why)) {
		hung, why = i.condemned.hung, i.condemned.why
	}
	if m.instance != i {
		return hung, why
	}
	m.instance = nil
	if !m.leaving {
		m.enter(Starting, why)
	}
	s.publish()
	s.metrics.PluginUp(m.name, false)
	return hung, why
}

// retire ends an instance when no pass needs it any more.
func (m *member) retire(ctx context.Context, i *process, hung bool, why error) {
	s, proc := m.supervisor, i.conn.proc
	select {
	case <-ctx.Done():
	case <-i.Unused():
	case <-proc.Exited():
	}
	grace := s.timeouts.Stop
	if hung {
		grace = 0
	}
	m.end(i.conn, grace)
	if harmless(why) || ctx.Err() != nil {
		s.log.Info("plugin exited", "plugin", m.name, "pid", i.PID, "status", proc.Ending())
	} else {
		s.log.Error("plugin exited", "plugin", m.name, "pid", i.PID, "error", why, "status", proc.Ending())
	}
}

// end ends a process, if there is one; one that cannot be killed is Run's result.
func (m *member) end(c *connection, grace time.Duration) {
	if c == nil {
		return
	}
	if err := c.close(grace); err != nil {
		err = fmt.Errorf("plugin %s: %w", m.name, err)
		m.supervisor.log.Error("plugin cannot be ended", "plugin", m.name, "error", err)
		m.supervisor.mu.Lock()
		m.supervisor.undead = append(m.supervisor.undead, err)
		m.supervisor.mu.Unlock()
	}
}
