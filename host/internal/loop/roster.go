package loop

import (
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A Roster is the set of running plugins, pinned for one pass: a
// supervisor.Pass.
type Roster interface {
	// Providers returns who offers c for s, the one in charge first and the
	// fallbacks after it. Their calls have deadlines, and their replies were
	// checked.
	Providers(s eviction.Signal, c eviction.Capability) []*registry.Instance
	// Serving returns who does c for s where the filesystems are laid out as layout
	// says, in the same order: who offers it for another name of the filesystem, too,
	// and is asked under that name.
	Serving(layout eviction.Layout, s eviction.Signal, c eviction.Capability) []registry.Provider
	// Assigned reports whether the configuration names who is in charge of c for s.
	Assigned(s eviction.Signal, c eviction.Capability) bool
	// Layouts are those that report the layout of the filesystems, the one in
	// charge first.
	Layouts() []*registry.Instance
	// Awaited is why nobody observes s although somebody should: a plugin that is
	// there does not run. It is nil if nobody is to come.
	Awaited(s eviction.Signal) error
	// FirstStart reports whether a plugin that should serve s is still in its first
	// start.
	FirstStart(s eviction.Signal) bool
	// Definition is what the running plugins say that an own signal is, and false
	// if none of them brings it.
	Definition(s eviction.Signal) (eviction.Definition, bool)
	// Release ends the pass: only now may the pinned processes be replaced.
	Release()
}
