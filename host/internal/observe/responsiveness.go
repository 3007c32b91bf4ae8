package observe

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/registry"
)

// unresponsiveDeadline is what a plugin gets to measure pods that has not answered
// Observe. If its process hangs, as it seems, there is a pod to be chosen without it.
const unresponsiveDeadline = time.Second

// Responsiveness is which plugins have not answered in time, by their last calls. It is
// safe for concurrent use.
type Responsiveness struct {
	mu     sync.Mutex
	missed map[*registry.Instance]missed
}

type missed int

const (
	missedObserve missed = iota + 1
	missedMeasureToo
)

// observed takes note of how an Observe ended.
func (r *Responsiveness) observed(i *registry.Instance, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		delete(r.missed, i)
		return
	}
	if len(r.missed) > 64 { // of processes that are gone
		clear(r.missed)
	}
	r.missed[i] = max(missedObserve, r.missed[i])
}

// Measured takes note of how a Measure ended.
func (r *Responsiveness) Measured(i *registry.Instance, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) && r.missed[i] > 0 {
		r.missed[i] = missedMeasureToo
	}
}

// Limit bounds a Measure of i, by least at least.
func (r *Responsiveness) Limit(ctx context.Context, i *registry.Instance, least time.Duration) (context.Context, context.CancelFunc) {
	if r.of(i) == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(unresponsiveDeadline, least))
}

// Unresponsive reports whether i is not to be asked any more until it observes again.
func (r *Responsiveness) Unresponsive(i *registry.Instance) bool {
	return r.of(i) == missedMeasureToo
}

func (r *Responsiveness) of(i *registry.Instance) missed {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.missed[i]
}

// keep forgets all but those that were asked to observe just now: of the others
// nothing new is heard.
func (r *Responsiveness) keep(asked map[*registry.Instance]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.missed, func(i *registry.Instance, _ missed) bool { return !asked[i] })
}
