package loop

import (
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
)

// A Roster is the set of running plugins, pinned for one pass: a
// supervisor.Pass.
type Roster interface {
	// Providers returns who offers c for s, the one in charge first and the
	// fallbacks after it. Their calls have deadlines, and their replies were
	// checked.
	Providers(s eviction.Signal, c eviction.Capability) []*supervisor.Instance
	// Layout is the plugin that reports the layout of the filesystems, nil if
	// there is none.
	Layout() *supervisor.Instance
	// Release ends the pass: only now may the pinned processes be replaced.
	Release()
}
