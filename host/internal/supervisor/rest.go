package supervisor

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// A sight is what a member had seen when it made an attempt.
type sight struct {
	// changes and freed are the supervisor's, looks the member's.
	changes, freed, looks int
}

func (m *member) sight() sight {
	m.supervisor.mu.Lock()
	defer m.supervisor.mu.Unlock()
	return m.sees()
}

// sees is sight with the mutex held.
func (m *member) sees() sight {
	return sight{m.supervisor.changes, m.supervisor.freed, m.looks}
}

// stateOf is the state of a plugin that could not be started.
func stateOf(why error) State {
	if errors.Is(why, plugindir.ErrIncomplete) {
		return Waiting
	}
	if _, ok := errors.AsType[plugindir.Refusal](why); ok {
		return Refused
	}
	return Backoff
}

// strained reports whether why may be the node's fault and not the plugin's: it was
// late, or the host lacked something to start it with.
func strained(why error) bool {
	return slices.ContainsFunc([]error{
		context.DeadlineExceeded, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
	}, func(e error) bool { return errors.Is(why, e) })
}

// rest waits until the plugin may be started again: for some time, or until
// something has changed that the last attempt had not seen.
func (m *member) rest(ctx context.Context, c *crashes, seen sight, why error, ran time.Duration, crashed bool) {
	s := m.supervisor
	state, wait := stateOf(why), time.Duration(0)
	switch state {
	case Waiting:
		wait = plugindir.Poll
	case Refused:
		wait = s.patience.window // What was in the way may have gone without a trace.
	default:
		var quarantine bool
		wait, quarantine = c.next(time.Now(), ran, crashed && !strained(why))
		if quarantine {
			state = Quarantined
			s.log.Error("plugin in quarantine", "plugin", m.name, "crashes", s.patience.crashes, "for", wait.String(), "error", why)
		}
	}
	var wake <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		wake = timer.C
	}
	m.enterRest(state, seen, why, wait)
	select {
	case <-ctx.Done():
		return
	case <-wake:
	case <-m.kick:
		c.forget()
	}
	if state != Waiting { // else it is still the same
		s.mu.Lock()
		if !m.leaving {
			m.enter(Starting, nil)
		}
		s.mu.Unlock()
	}
}

// enterRest changes the state, and ends the rest before it begins if something has
// changed since seen.
func (m *member) enterRest(state State, seen sight, why error, wait time.Duration) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.leaving {
		return
	}
	now := m.sees()
	if state == Refused {
		m.disclaim() // which kicks all that are refused
	}
	drain(m.kick)
	if now.changes != seen.changes || now.looks != seen.looks || state == Refused && now.freed != seen.freed {
		signal(m.kick)
	}
	if state == Waiting && m.state != Waiting {
		s.log.Info("plugin is not started as long as somebody writes its file", "plugin", m.name, "reason", why)
	}
	m.enter(state, why)
	if state == Backoff || state == Quarantined {
		m.until = time.Now().Add(wait)
	}
}
