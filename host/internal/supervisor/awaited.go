package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
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
// disabled, which is how signals are switched off.
func (p *Pass) Awaited(sig eviction.Signal) error {
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		if m := s.members[name]; m.awaited() && slices.Contains(m.usuallyObserves(), sig) {
			return m.away()
		}
	}
	return nil
}

// awaited reports whether the plugin is wanted and does not serve. The mutex is
// held.
func (m *member) awaited() bool {
	gone := m.leaving || m.state == Disabled || m.state == Stopped || errors.Is(m.reason, fs.ErrNotExist)
	return !gone && (m.instance == nil || m.instance.condemned != nil)
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
