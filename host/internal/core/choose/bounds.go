package choose

import (
	"context"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/registry"
)

// Bounds bound the calls for one choice.
type Bounds struct {
	// Budget bounds the wait for custom plugins.
	Budget *observe.Budget
	// Left is the time until nothing is left of the signal at the pace of its fall, 0 if calls have time. Figures that
	// do not come in a part of it are the host's own, or the last ones.
	Left time.Duration
}

const (
	// Of the time that is left a call may take one part in callsLeft, since several follow one another before the pod has
	// ended, but leastDeadline at least: that is enough for 500 pods.
	callsLeft     = 8
	leastDeadline = 50 * time.Millisecond
)

// whileLeft bounds a call of the host or of a built-in plugin by the time that is left, but not below least.
func (b Bounds) whileLeft(ctx context.Context, least time.Duration) (context.Context, context.CancelFunc) {
	if b.Left == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, max(b.Left/callsLeft, leastDeadline, least))
}

// call calls f, which waits for p: a custom plugin has its budget.
func (b Bounds) call(ctx context.Context, p registry.Provider, least time.Duration, f func(context.Context) error) error {
	if !p.Builtin() {
		return b.Budget.Call(ctx, p.Instance, f)
	}
	ctx, late := b.whileLeft(ctx, least)
	defer late()
	return f(ctx)
}
