package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// triedFirst ends the member's first attempt; i is nil if it failed. The last
// one to come decides which custom plugins exclude each other: at the host's
// start none of them was there first.
func (m *member) triedFirst(i *Instance) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.first {
		return
	}
	m.candidate = i
	if s.untried--; s.untried > 0 {
		return
	}
	var custom []*member
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if c := s.members[name]; c.candidate != nil && !builtin(name) {
			custom = append(custom, c)
		}
	}
	for n, a := range custom {
		for _, b := range custom[n+1:] {
			if err := conflict(claim{a.name, a.candidate.Plugin}, claim{b.name, b.candidate.Plugin}); err != nil {
				a.rivals[b.name], b.rivals[a.name] = err, err
			}
		}
	}
	close(s.tried)
}

// settled ends an attempt: the plugin serves, or does not because of err. The
// first one counts for Started.
func (m *member) settled(err error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && !errors.Is(err, errAgain) {
		state := Backoff
		if _, ok := errors.AsType[refusal](err); ok {
			state = Refused
		}
		m.enter(state, err)
	}
	if !m.first {
		return
	}
	m.first, m.candidate = false, nil
	if s.unsettled--; s.unsettled == 0 {
		close(s.started)
	}
}

// admit puts an instance into service, or ends it.
func (m *member) admit(ctx context.Context, i *Instance) error {
	err := m.await(ctx, i)
	for err == nil {
		var done bool
		if done, err = m.enroll(i); done {
			m.supervisor.log.Info("plugin started", "plugin", m.name, "pid", i.PID, "version", i.Plugin.Version, "offers", offerNames(i.Plugin))
			m.supervisor.metrics.PluginUp(m.name, true)
			return nil
		}
		if err == nil {
			err = m.configure(ctx, i)
		}
	}
	m.end(i.conn, m.supervisor.timeouts.Stop)
	return err
}

// await lets custom plugins wait for each other at the host's start. The
// built-in ones serve at once: a node is better off without a ranker than
// without its memory signal.
func (m *member) await(ctx context.Context, i *Instance) error {
	if builtin(m.name) || i.conn == nil {
		return nil
	}
	select {
	case <-m.supervisor.tried:
		return nil
	case <-i.conn.proc.exited:
		return errors.New("exited by itself (" + i.conn.proc.ending() + ")")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enroll puts an instance into service if it may serve. It reports false
// without an error if the settings have changed since it was configured.
func (m *member) enroll(i *Instance) (bool, error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.leaving || i.outdated(s.settings[m.name]) {
		return false, errAgain
	}
	mine := claim{m.name, i.Plugin}
	if err := s.conflicts(m, mine); err != nil {
		return false, refusal{err}
	}
	if i.revision != s.revision {
		return false, nil
	}
	s.claims[m.name] = mine
	m.instance, m.observes = i, observed(i.Plugin)
	m.enter(Running, nil)
	s.publish()
	return true, nil
}

// conflicts returns what keeps m from serving: rivals as long as they are there
// and not disabled, and whoever serves already. The mutex is held.
func (s *Supervisor) conflicts(m *member, mine claim) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if rival := m.rivals[name]; rival != nil && !s.settings[name].Disabled {
			errs = append(errs, rival)
		} else if theirs, ok := s.claims[name]; ok && name != m.name {
			errs = append(errs, conflict(theirs, mine))
		}
	}
	return errors.Join(errs...)
}
