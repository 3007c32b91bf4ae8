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

// Measure calls f, which measures with i, and records whether it has answered. An unresponsive i has a second, or
// least if that is longer.
func (r *Responsiveness) Measure(ctx context.Context, i *registry.Instance, least time.Duration, f func(context.Context) error) error {
	if _, missed := r.of(i); missed {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(unresponsiveDeadline, least))
		defer cancel()
	}
	err := f(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, missed := r.missed[i]; missed && errors.Is(err, context.DeadlineExceeded) {
		r.missed[i] = true
	}
	return err
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
