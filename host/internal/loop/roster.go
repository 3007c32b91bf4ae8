package loop

import (
	"github.com/evictd/evictd/shared/eviction"
)

// A Provider is a running plugin as the loop sees it: a name and calls that
// already have their deadlines and checks.
type Provider struct {
	Name string
	// Generation changes each time the plugin's process is started anew.
	Generation uint64
	Plugin     *eviction.Plugin
}

// A Roster is the set of running plugins, pinned for one pass.
type Roster interface {
	// Providers returns who offers c for s, the one in charge first and the
	// fallbacks after it.
	Providers(s eviction.Signal, c eviction.Capability) []*Provider
	// Release ends the pass: only now may the pinned processes be replaced.
	Release()
}

// Plugins is where rosters come from.
type Plugins interface {
	Pin() Roster
	// Changed delivers a value when the set of running plugins has changed.
	Changed() <-chan struct{}
}
