package supervisor

import (
	"github.com/evictd/evictd/shared/eviction"
)

// Definition returns what the running plugins say that an own signal is, and false
// if none of them brings it. Those that say different things do not serve
// together.
func (p *Pass) Definition(sig eviction.Signal) (eviction.Definition, bool) {
	for _, i := range p.roster.instances {
		for _, s := range i.Plugin.Signals {
			if s.Signal == sig && s.Definition != nil {
				return *s.Definition, true
			}
		}
	}
	return eviction.Definition{}, false
}
