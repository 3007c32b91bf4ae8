package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/shared/eviction"
)

// InProcess returns a supervisor of plugins that run in this process, by name.
// It is an error if one of them breaks the contract or refuses the host; whether
// they accept their configuration is only known to Run.
func InProcess(plugins map[string]eviction.Plugin, o Options) (*Supervisor, error) {
	s := newSupervisor(o)
	s.inside = make(map[string]eviction.Plugin, len(plugins))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		p := plugins[name]
		err := p.Validate()
		if err == nil && p.CheckHost != nil {
			err = p.CheckHost(o.Host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
		s.inside[name] = client.Direct(p)
		s.members[name] = newMember(s, name)
	}
	return s, errors.Join(errs...)
}

// runInside is Run for plugins of this process.
func (s *Supervisor) runInside(ctx context.Context) error {
	s.mu.Lock()
	s.warnUnknown()
	s.mu.Unlock()
	err := s.reconcileInside(ctx)
	if err == nil {
		close(s.started)
	}
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.rescan:
			if err := s.reconcileInside(ctx); err != nil && ctx.Err() == nil {
				s.log.Error("plugins of this process do not serve", "error", err)
			}
		}
	}
	for _, m := range s.members {
		m.withdraw(Stopped)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // what failed was cut short by the end
	}
	return err
}

// reconcileInside puts plugins of this process into service and takes them out
// of it, as the settings say. One that refuses its configuration, or conflicts
// with another, is asked again when the settings change.
func (s *Supervisor) reconcileInside(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[name]
		s.mu.Lock()
		disabled := s.settings[name].Disabled
		serves := m.instance != nil && m.instance.condemned == nil
		s.mu.Unlock()
		switch {
		case disabled:
			m.withdraw(Disabled)
		case !serves:
			if err := m.enterInside(ctx); err != nil {
				errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// enterInside configures a plugin of this process and puts it into service.
func (m *member) enterInside(ctx context.Context) error {
	s := m.supervisor
	m.withdraw(Starting)
	s.mu.Lock()
	m.starts++
	i := s.newProcess(m)
	s.mu.Unlock()
	err := i.client.Describe(ctx, func(context.Context) (eviction.Plugin, error) { return s.inside[m.name], nil })
	if err == nil {
		i.Plugin = i.client.Plugin()
		err = m.configure(ctx, i)
	}
	if err == nil {
		err = m.admit(ctx, i)
	}
	if err != nil {
		s.mu.Lock()
		m.enter(Refused, err)
		s.mu.Unlock()
	}
	return err
}

// withdraw takes a plugin of this process out of service. Passes that have it
// pinned go on using it.
func (m *member) withdraw(to State) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	m.enter(to, nil)
	delete(s.claims, m.name)
	if m.instance == nil {
		return
	}
	m.instance = nil
	s.publish()
	s.metrics.PluginUp(m.name, false)
}
