package choose

import (
	"context"
	"slices"
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

// A Request describes the threshold for which to choose a pod.
type Request struct {
	Bounds
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
	// List lists the pods.
	List func(ctx context.Context) (pods.Snapshot, error)
}

// Choose lists the pods, takes the figures of the candidates and puts them in order.
func (c *Chooser) Choose(ctx context.Context, pin *registry.Pin, r Request) Choice {
	listed, err := r.List(ctx)
	if err != nil {
		return Choice{Snapshot: listed, Err: err}
	}
	how := c.measuring(pin, &r)
	out := c.among(ctx, pin, how, &r, listed)
	if listed.Recheck != nil {
		if corrected, differs := listed.Recheck(ctx); differs {
			out = c.among(ctx, pin, how, &r, corrected)
		}
	}
	if len(out.Order) == 0 {
		return out
	}
	if out.TooSoon = c.tooSoon(pin, how.Signal, out.Measured); !out.TooSoon && ctx.Err() == nil {
		out.detailed = c.detail(ctx, how, &out)
	}
	return out
}

// among returns the order of the pods in a snapshot that may be evicted.
func (c *Chooser) among(ctx context.Context, pin *registry.Pin, how Measuring, r *Request, s pods.Snapshot) Choice {
	out := Choice{Snapshot: s, Candidates: candidates(s, r.Ending)}
	f := c.figures(ctx, how, out.Candidates)
	out.Measured, out.Took, out.Err = f.got, f.took, f.err
	if f.old != nil {
		out.Snapshot.Stale = append(slices.Clone(s.Stale), *f.old)
	}
	c.order(ctx, pin.Serving(r.Layout, how.Signal, eviction.CanRank), r, &out)
	return out
}

// tooSoon reports whether to retry later instead of using a choice: no pod was measured, and the
// plugin that should measure has not finished its first start.
func (c *Chooser) tooSoon(pin *registry.Pin, s eviction.Signal, measured map[string]eviction.Measurement) bool {
	if time.Since(c.Began) >= FirstStarts {
		return false
	}
	for _, m := range measured {
		if m.State != eviction.MeasurementUnknown {
			return false
		}
	}
	return pin.FirstStart(s)
}

// detail measures the containers of the first pod, for the message. If that fails the message omits
// them.
func (c *Chooser) detail(ctx context.Context, how Measuring, out *Choice) eviction.Measurement {
	pod, known := out.First()
	if known.State != eviction.Measured || len(known.Containers) > 0 {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, max(detailDeadline, c.MinDeadline))
	defer cancel()
	how.Detail = eviction.DetailContainers
	detailed, ok := c.Measure(ctx, how, []pods.Pod{pod})[pod.Row.UID]
	if !ok || detailed.State != eviction.Measured {
		return known
	}
	return detailed
}
