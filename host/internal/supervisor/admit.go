package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
)

// triedFirst ends the member's first attempt; i is nil if it failed. The last
// one to come decides which custom plugins exclude each other: at the host's
// start none of them was there first.
func (m *member) triedFirst(i *process) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if !m.first {
		return
	}
	m.candidate = i
	if i != nil {
		m.described = i.Plugin
	}
	if s.untried--; s.untried == 0 {
		s.endTrial()
	}
}

// endTrial finds those of the candidates that exclude each other. What comes to be
// a candidate later finds others in place. The mutex is held.
func (s *Supervisor) endTrial() {
	if s.over(s.tried) {
		return
	}
	var custom []*member
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if c := s.members[name]; c.candidate != nil && !registry.Builtin(name) {
			custom = append(custom, c)
		}
	}
	for n, a := range custom {
		for _, b := range custom[n+1:] {
			if s.newRegistry().Conflict(registry.Registration{Name: a.name, Plugin: a.candidate.Plugin}, registry.Registration{Name: b.name, Plugin: b.candidate.Plugin}) != nil {
				a.rivals[b.name], b.rivals[a.name] = true, true
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
	if err != nil && !errors.Is(err, errAgain) && !errors.Is(err, plugindir.ErrIncomplete) && !m.leaving {
		m.enter(stateOf(err), err)
	}
	if !m.first {
		return
	}
	m.first, m.candidate = false, nil
	if s.unsettled--; s.unsettled == 0 && !s.over(s.started) {
		close(s.started)
	}
}

// over reports whether a part of the start has ended.
func (s *Supervisor) over(part <-chan struct{}) bool {
	select {
	case <-part:
		return true
	default:
		return false
	}
}

// limitStart goes on without the plugins that are not ready in time.
func (s *Supervisor) limitStart(ctx context.Context, limit time.Duration, started <-chan struct{}) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return
	case <-started:
		return
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endTrial()
	if s.over(s.started) {
		return
	}
	var late []string
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if s.members[name].first && s.members[name].candidate == nil {
			late = append(late, name)
		}
	}
	s.log.Warn("plugins take long to start, nobody waits for them any longer", "plugins", late, "waited", limit.String())
	close(s.started)
}

// admit puts an instance into service, in the place of the one that serves if
// there is one, or ends it.
func (m *member) admit(ctx context.Context, i *process) error {
	s := m.supervisor
	err := m.await(ctx, i)
	for err == nil {
		var (
			done   bool
			former *process
		)
		if done, former, err = m.enroll(ctx, i); done {
			if former == nil {
				s.log.Info("plugin started", "plugin", m.name, "pid", i.PID, "version", i.Plugin.Version, "offers", registry.Offers(i.Plugin))
			} else {
				s.log.Info("plugin replaced", "plugin", m.name, "pid", i.PID, "version", i.Plugin.Version, "offers", registry.Offers(i.Plugin),
					"formerPID", former.PID, "formerVersion", former.Plugin.Version)
			}
			s.metrics.PluginUp(m.name, true)
			return nil
		}
		if err == nil {
			err = m.configure(ctx, i)
		}
	}
	m.end(i.conn, s.timeouts.Stop)
	return err
}

// await lets custom plugins wait for each other at the host's start, for a while. The
// built-in ones serve at once: a node is better off without a ranker than
// without its memory signal.
func (m *member) await(ctx context.Context, i *process) error {
	if registry.Builtin(m.name) || i.conn == nil {
		return nil
	}
	select {
	case <-m.supervisor.tried:
		return nil
	case <-i.conn.proc.Exited():
		return errors.New("exited by itself (" + i.conn.proc.Ending() + ")")
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enroll puts an instance into service if it may serve, and returns the one that
// served until now, if one did. It reports false without an error if the settings
// have changed since it was configured.
func (m *member) enroll(ctx context.Context, i *process) (done bool, former *process, err error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.leaving || ctx.Err() != nil || i.outdated(s.settings) {
		return false, nil, errAgain
	}
	mine := registry.Registration{Name: m.name, Plugin: i.Plugin}
	if m.instance == nil {
		m.described = i.Plugin // What is refused is shown, too.
	}
	if err := s.conflicts(m, mine); err != nil {
		return false, nil, plugindir.Refusal{Err: err}
	}
	if i.revision != s.revision {
		return false, nil, nil
	}
	less := s.claims[m.name].Name != "" && !registry.SameOffers(s.claims[m.name].Plugin, i.Plugin)
	s.claims[m.name] = mine
	former = m.instance
	m.instance, m.described, m.observes = i, i.Plugin, registry.Observed(i.Plugin)
	m.replacement = nil
	if _, refused := errors.AsType[plugindir.Refusal](m.lastError); refused {
		m.lastError = nil // What it was refused for is no more.
	}
	m.enter(Running, nil)
	if former != nil {
		m.swaps++
		s.condemn(former, sentence{why: errReplaced})
	}
	s.publish()
	s.unassigned()
	if less {
		s.kickRefused()
	}
	return true, former, nil
}

// conflicts returns what keeps m from serving: whoever serves already, and rivals
// as long as they are there. The mutex is held.
func (s *Supervisor) conflicts(m *member, mine registry.Registration) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if name == m.name || s.settings[name].Disabled {
			continue
		}
		theirs, ok := s.claims[name]
		if other := s.members[name]; !ok && m.rivals[name] && other.described != nil {
			theirs, ok = registry.Registration{Name: name, Plugin: other.described}, true
		}
		if ok {
			errs = append(errs, s.newRegistry().Conflict(theirs, mine))
		}
	}
	return errors.Join(errs...)
}
