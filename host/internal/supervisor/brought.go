package supervisor

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Definition returns what a running plugin says that an own signal is, or else
// what one said that is only to be started again, and false if no plugin brings
// the signal. Those that say different things do not serve together.
func (p *Pass) Definition(sig eviction.Signal) (eviction.Definition, bool) {
	for _, i := range p.roster.instances {
		if d := defined(i.Plugin, sig); d != nil {
			return *d, true
		}
	}
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.present() {
		if d := defined(c.plugin, sig); d != nil {
			return *d, true
		}
	}
	return eviction.Definition{}, false
}

// Claimed reports whether a plugin of this node offers c for sig: one that runs or,
// if it has crashed, is to be started again. What is claimed and has no provider is
// unknown; what is not claimed is switched off.
func (p *Pass) Claimed(sig eviction.Signal, c eviction.Capability) bool {
	if len(p.Providers(sig, c)) > 0 {
		return true
	}
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.present(), func(of claim) bool { return of.plugin.For(sig).Has(c) })
}

// present are the claims of plugins that have served and are not to end, by name.
// The mutex is held.
func (s *Supervisor) present() []claim {
	out := make([]claim, 0, len(s.claims))
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		if m := s.members[name]; m != nil && !m.leaving {
			out = append(out, s.claims[name])
		}
	}
	return out
}

func defined(p *eviction.Plugin, sig eviction.Signal) *eviction.Definition {
	for i := range p.Signals {
		if p.Signals[i].Signal == sig {
			return p.Signals[i].Definition
		}
	}
	return nil
}
