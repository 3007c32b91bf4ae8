package loop

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
)

// silentPatience is what a plugin gets to measure pods that has not answered
// Observe. If its process hangs, as it seems, there is a pod to be chosen without it.
const silentPatience = time.Second

// silence is which plugins have not answered in time, by their last calls: 1 for
// Observe, 2 for Measure too. It is safe for concurrent use.
type silence struct {
	mu    sync.Mutex
	calls map[*registry.Instance]int
}

// observed takes note of how an Observe ended.
func (s *silence) observed(i *registry.Instance, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		delete(s.calls, i)
		return
	}
	if len(s.calls) > 64 { // of processes that are gone
		clear(s.calls)
	}
	s.calls[i] = max(1, s.calls[i])
}

// measured takes note of how a Measure ended.
func (s *silence) measured(i *registry.Instance, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) && s.calls[i] > 0 {
		s.calls[i] = 2
	}
}

func (s *silence) of(i *registry.Instance) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[i]
}

// patience limits a Measure of i.
func (s *silence) patience(ctx context.Context, i *registry.Instance, least time.Duration) (context.Context, context.CancelFunc) {
	if s.of(i) == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(silentPatience, least))
}

// hung reports whether i is not to be asked any more until it observes again.
func (s *silence) hung(i *registry.Instance) bool { return s.of(i) == 2 }

// keep forgets all but those that were asked to observe just now: of the others
// nothing new is heard.
func (s *silence) keep(asked map[*registry.Instance]bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.calls, func(i *registry.Instance, _ int) bool { return !asked[i] })
}
