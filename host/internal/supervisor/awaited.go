package supervisor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// builtinObserves is what the plugins that come with the host observe, also if
// none of them has ever come up to say so.
var builtinObserves = map[string][]eviction.Signal{
	"memory": {eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable},
	"disk": {
		eviction.NodeFsAvailable, eviction.NodeFsInodesFree,
		eviction.ImageFsAvailable, eviction.ImageFsInodesFree,
		eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
	},
	"pid": {eviction.PIDAvailable},
}

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
	for name, signals := range builtinObserves {
		m := s.members[name]
		if slices.Contains(signals, sig) && !s.settings[name].Disabled && (m == nil || m.leaving || m.dangling) {
			return fmt.Errorf("plugin %s is not there", name)
		}
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

// usuallyObserves is what the plugin observed when it last served.
func (m *member) usuallyObserves() []eviction.Signal {
	if m.observes == nil {
		return builtinObserves[m.name]
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
