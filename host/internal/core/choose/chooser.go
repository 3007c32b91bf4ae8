package choose

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// listDeadline bounds a listing of the pods.
	listDeadline = 5 * time.Second
	// detailDeadline bounds inspecting the victim's containers, which only the message needs.
	detailDeadline = 250 * time.Millisecond
	// FirstStarts is the time after its own start for which the host waits for plugins that measure
	// pods, before it chooses a pod by priority alone.
	FirstStarts = 30 * time.Second
)

// Options configures a Chooser.
type Options struct {
	observe.Options

	Pods           pods.Source
	Responsiveness *observe.Responsiveness
	// MinDeadline is the least deadline of a call.
	MinDeadline time.Duration
}

// A Chooser chooses the pod to evict. It is safe for concurrent use.
type Chooser struct {
	Options
	// Began is when the host started: plugins may still be starting for a while.
	Began time.Time
	usage lastUsage
	// preparing is held while a listing is prepared.
	preparing sync.Mutex
}

// New returns a Chooser without figures.
func New(o Options) *Chooser {
	return &Chooser{Options: o, usage: lastUsage{bySignal: map[eviction.Signal]map[string]lastFigure{}}}
}

// List lists the pods, within the time that a pass may wait for it.
func (c *Chooser) List(ctx context.Context) (pods.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, max(listDeadline, c.MinDeadline))
	defer cancel()
	return c.Pods.Active(ctx)
}

// Prepare has the pods listed in advance, since a pod may soon be chosen for a condition.
func (c *Chooser) Prepare(ctx context.Context, condition eviction.Condition) {
	source, can := c.Pods.(pods.Preparer)
	if !can || !condition.CheapToMeasure() || !c.preparing.TryLock() {
		return
	}
	defer c.preparing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, listDeadline)
	defer cancel()
	source.Prepare(ctx)
}

// Forget drops the last figures of a signal whose unit has changed.
func (c *Chooser) Forget(s eviction.Signal) {
	c.usage.mu.Lock()
	defer c.usage.mu.Unlock()
	delete(c.usage.bySignal, s)
}

// A Request describes the threshold for which to choose a pod.
type Request struct {
	Threshold   policy.Threshold
	Observation eviction.Observation
	Layout      eviction.Layout
	At          eviction.PassView
	// Ending reports whether a pod is a victim already.
	Ending func(uid string) bool
	// Veto protects pods that a custom ranker leaves out.
	Veto bool
	// MeasureOn measures pods again that may use more than the first one. It takes time.
	MeasureOn bool
	// Budget bounds the wait for custom plugins.
	Budget *observe.Budget
	// Left is the time until nothing is left of the signal at the pace of its fall, 0 if calls have time. Figures that
	// do not come in a part of it are the host's own, or the last ones.
	Left time.Duration
	// List lists the pods.
	List func(ctx context.Context) (pods.Snapshot, error)
}

// Choose lists, measures and ranks the pods.
func (c *Chooser) Choose(ctx context.Context, pin *registry.Pin, r Request) (out Choice) {
	out.Snapshot, out.Err = r.List(ctx)
	if out.Err != nil {
		return out
	}
	out.Candidates = candidates(out.Snapshot, r.Ending)
	c.rank(ctx, pin, r, &out)
	if out.Snapshot.Recheck != nil {
		if corrected, differs := out.Snapshot.Recheck(ctx); differs {
			out = Choice{Snapshot: corrected, Candidates: candidates(corrected, r.Ending)}
			c.rank(ctx, pin, r, &out)
		}
	}
	out.TooSoon = c.tooSoon(pin, r.Threshold.Signal, &out)
	if !out.TooSoon && len(out.Order) > 0 && ctx.Err() == nil {
		out.detailed = c.detail(ctx, pin, r, &out)
	}
	return out
}

// tooSoon reports whether to retry later instead of using a choice: no pod was measured, and the
// plugin that should measure has not finished its first start.
func (c *Chooser) tooSoon(pin *registry.Pin, s eviction.Signal, out *Choice) bool {
	if len(out.Order) == 0 || time.Since(c.Began) >= FirstStarts {
		return false
	}
	for _, m := range out.Measured {
		if m.State != eviction.MeasurementUnknown {
			return false
		}
	}
	return pin.FirstStart(s)
}

// detail measures the containers of the first pod, for the message. If that fails the message omits
// them.
func (c *Chooser) detail(ctx context.Context, pin *registry.Pin, r Request, out *Choice) eviction.Measurement {
	pod, known := out.First()
	if known.State != eviction.Measured || len(known.Containers) > 0 {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, max(detailDeadline, c.MinDeadline))
	defer cancel()
	detailed, ok := c.Measure(ctx, c.measuring(pin, &r, eviction.DetailContainers), []pods.Pod{pod})[pod.Row.UID]
	if !ok || detailed.State != eviction.Measured {
		return known
	}
	return detailed
}
