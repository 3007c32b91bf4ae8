package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
)

// unresponsiveDeadline bounds the measurement of pods by a plugin that has not answered Observe.
// If its process hangs, as it seems, there is a pod to be chosen without it.
const unresponsiveDeadline = time.Second

// Responsiveness is which plugins have not answered in time, by their last calls. It is
// safe for concurrent use.
type Responsiveness struct {
	mu sync.Mutex
	// missed holds the plugins that have not answered Observe, and whether Measure neither.
	missed map[*registry.Instance]bool
}

// observed takes note of how those that were just asked have answered Observe. Of others
// nothing new is known.
func (r *Responsiveness) observed(answers map[*registry.Instance]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.missed, func(i *registry.Instance, _ bool) bool { return i.Ended() })
	for i, err := range answers {
		if !errors.Is(err, context.DeadlineExceeded) {
			delete(r.missed, i)
			continue
		}
		if r.missed == nil {
			r.missed = map[*registry.Instance]bool{}
		}
		both := r.missed[i]
		r.missed[i] = both
	}
}

// Measured takes note of how a Measure ended.
func (r *Responsiveness) Measured(i *registry.Instance, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, missed := r.missed[i]; missed && errors.Is(err, context.DeadlineExceeded) {
		r.missed[i] = true
	}
}

// Limit bounds a Measure of i, by least at least.
func (r *Responsiveness) Limit(ctx context.Context, i *registry.Instance, least time.Duration) (context.Context, context.CancelFunc) {
	if _, missed := r.of(i); !missed {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(unresponsiveDeadline, least))
}

// Unresponsive reports whether i is not to be asked any more until it observes again.
func (r *Responsiveness) Unresponsive(i *registry.Instance) bool {
	both, _ := r.of(i)
	return both
}

func (r *Responsiveness) of(i *registry.Instance) (both, missed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	both, missed = r.missed[i]
	return both, missed
}
