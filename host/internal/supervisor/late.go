package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// mostDoublings is how often the limits of a start are doubled at most: a handshake
// has 80 s then.
const mostDoublings = 3

// noteLate takes note of how an attempt to start ended. On a slow machine the same
// limit would be missed again and again.
func (m *member) noteLate(err error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		m.late = 0
		return
	}
	m.late = min(m.late+1, mostDoublings)
}

// extended is a limit of the start as long as the plugin needs it by what was seen.
func (i *Instance) extended(limit time.Duration) time.Duration { return limit << i.doublings }

// FirstStart reports whether a plugin that should serve sig is still in its first
// start: it has neither served nor failed by itself. One that was too late is tried
// again, with more time, and one that has come up since the pass began will serve in
// the next one.
func (p *Pass) FirstStart(sig eviction.Signal) bool {
	s := p.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if !m.wanted() || m.serves(p.roster) || !slices.Contains(m.usuallyObserves(), sig) {
			continue
		}
		justUp := m.instance != nil && m.instance.condemned == nil
		if justUp || m.observes == nil && (m.first || m.late > 0) {
			return true
		}
	}
	return false
}
