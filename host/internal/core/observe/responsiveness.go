package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
)

// unresponsiveDeadline bounds measuring pods with a plugin that has not answered Observe. Its
// process seems to hang, so a pod must be chosen without it.
const unresponsiveDeadline = time.Second

// Responsiveness tracks which plugins did not answer their last calls in time. It is safe for
// concurrent use.
type Responsiveness struct {
	mu sync.Mutex
	// missed holds the plugins that have not answered Observe, and whether they missed Measure too.
	missed map[*registry.Instance]bool
}

// observed records which of the plugins just asked have answered Observe. It leaves the others
// unchanged.
func (r *Responsiveness) observed(answers map[*registry.Instance]error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.missed, func(i *registry.Instance, _ bool) bool { return i.Ended() })
	for i, err := range answers {
		if errors.Is(err, ErrBudgetSpent) {
			continue
		}
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

// Measured records how a Measure ended.
func (r *Responsiveness) Measured(i *registry.Instance, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, missed := r.missed[i]; missed && errors.Is(err, context.DeadlineExceeded) {
		r.missed[i] = true
	}
}

// Limit bounds a Measure by an unresponsive i, but not below least.
func (r *Responsiveness) Limit(ctx context.Context, i *registry.Instance, least time.Duration) (context.Context, context.CancelFunc) {
	if _, missed := r.of(i); !missed {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(unresponsiveDeadline, least))
}

// Unresponsive reports whether to skip i until it observes again.
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
