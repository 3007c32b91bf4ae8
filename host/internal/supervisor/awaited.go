package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// newRegistry decides who serves what by what is known now. The mutex is held.
func (s *Supervisor) newRegistry() *registry.Registry {
	var all []registry.Plugin
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		all = append(all, s.members[name].registered())
	}
	for _, sig := range eviction.BuiltinSignals() {
		b, _ := eviction.Builtin(sig)
		m := s.members[b.Plugin]
		if !s.expectBuiltins || s.settings[b.Plugin].Disabled || m != nil && !m.leaving && !m.dangling {
			continue
		}
		// It has to be there.
		all = slices.DeleteFunc(all, func(p registry.Plugin) bool { return p.Name == b.Plugin })
		all = append(all, registry.Plugin{
			Name: b.Plugin, Unassignable: "is not there", Observes: eviction.SignalsOf(b.Plugin), Missing: fmt.Errorf("plugin %s is not there", b.Plugin),
		})
	}
	return registry.New(all, s.assignment)
}

// registered is what the registry knows of m.
func (m *member) registered() registry.Plugin {
	s := m.supervisor
	p := registry.Plugin{
		Name: m.name, State: string(m.state), Said: m.described, Slow: m.slowness.Standby(), Observes: m.observes,
		FirstStart: m.observes == nil && (m.first || m.late > 0),
	}
	if m.instance != nil && m.instance.condemned == nil {
		p.Instance = m.instance.Instance
	}
	if m.observes == nil {
		p.Observes = eviction.SignalsOf(m.name)
	}
	switch {
	case m.leaving && m.state == Removed:
		p.Unassignable = "is not there"
	case m.leaving || s.settings[m.name].Disabled:
		p.Unassignable = "is disabled"
	}
	if !m.leaving && m.state != Disabled && m.state != Stopped && !m.dangling {
		p.Missing = errors.New("plugin " + m.name + " does not run (" + string(m.state) + ")")
		if m.lastError != nil {
			p.Missing = fmt.Errorf("%w: %w", p.Missing, m.lastError)
		}
	}
	return p
}

// Reassign puts another assignment in force.
func (s *Supervisor) Reassign(a registry.Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.EqualFunc(s.assignment, a, maps.Equal) {
		return
	}
	s.assignment = a
	s.reassigned()
	signal(s.rescan) // Plugins of this process have nobody else to ask.
}

// unassigned looks at the assignment again after plugins have come or gone. The
// mutex is held.
func (s *Supervisor) unassigned() {
	if !slices.Equal(s.newRegistry().Ineffective(), s.ineffective) {
		s.reassigned()
	}
}

// reassigned tells once of each assignment that has no effect, and takes plugins out
// of service that another assignment had let serve beside each other. The mutex is
// held.
func (s *Supervisor) reassigned() {
	r := s.newRegistry()
	former := s.ineffective
	s.ineffective = r.Ineffective()
	for _, a := range s.ineffective {
		if !slices.Contains(former, a) {
			s.log.Warn("assignment to a plugin has no effect", "signal", a.Signal, "capability", a.Capability, "plugin", a.Plugin, "because", a.Because)
		}
	}
	for loser, why := range r.Conflicting(s.current.Registry()) {
		s.condemn(s.members[loser.Name].instance, sentence{why: plugindir.Refusal{Err: why}})
	}
	s.publish()
	s.kickRefused()
}
