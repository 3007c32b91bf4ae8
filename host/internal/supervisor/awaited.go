package supervisor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Awaited returns why nobody observes sig although somebody should: a plugin
// whose file is there, and that observed sig when it last ran, does not run. It
// is nil if there is no such plugin: nobody has come, or whoever did was removed or
// disabled, which is how signals are switched off. One that has come up since the
// pass began does not serve in it, and is awaited as well.
func (p *Pass) Awaited(sig eviction.Signal) error {
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[name]
		if m.wanted() && !m.serves(p.roster) && slices.Contains(m.usuallyObserves(), sig) {
			return m.away()
		}
	}
	return s.missing(sig)
}

// missing returns why nobody observes sig where the plugins that come with the host
// have to be there, unless they are disabled. The mutex is held.
func (s *Supervisor) missing(sig eviction.Signal) error {
	if !s.expectBuiltins {
		return nil
	}
	b, builtin := eviction.Builtin(sig)
	m := s.members[b.Plugin]
	if builtin && !s.settings[b.Plugin].Disabled && (m == nil || m.leaving || m.dangling) {
		return fmt.Errorf("plugin %s is not there", b.Plugin)
	}
	return nil
}

// wanted reports whether the plugin is to run. The mutex is held.
func (m *member) wanted() bool {
	return !m.leaving && m.state != Disabled && m.state != Stopped && !m.dangling
}

// serves reports whether the plugin does, in a pass with r. The mutex is held.
func (m *member) serves(r *roster) bool {
	return m.instance != nil && m.instance.condemned == nil && slices.Contains(r.instances, m.instance)
}

// usuallyObserves is what the plugin observed when it last served. What comes with the
// host has its signals also if it has never come up to say so.
func (m *member) usuallyObserves() []eviction.Signal {
	if m.observes == nil {
		return eviction.SignalsOf(m.name)
	}
	return m.observes
}

func (m *member) away() error {
	err := fmt.Errorf("plugin %s does not run (%s)", m.name, m.state)
	if why := m.lastError; why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
}

// observed lists what p observes; it is never nil.
func observed(p *eviction.Plugin) []eviction.Signal {
	signals := []eviction.Signal{}
	for _, s := range p.Signals {
		if p.For(s.Signal).Has(eviction.CanObserve) {
			signals = append(signals, s.Signal)
		}
	}
	return signals
}
