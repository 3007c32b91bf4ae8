package loop

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/metrics"
	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// embedder is the provider name of steps that the embedding program runs.
	embedder = "embedding program"
	// hardReclaim bounds all custom steps together before a pod is evicted for a hard threshold.
	hardReclaim = 30 * time.Second
	// mostReclaim bounds a step of the embedding program, like one of a plugin.
	mostReclaim = 10 * time.Minute
)

// stepsFor returns the steps for s in layout, including those listed for another signal of its
// filesystem, in groups: each step of a custom plugin alone, then those of the built-in one
// together.
func stepsFor(pin *registry.Pin, layout eviction.Layout, s eviction.Signal) [][]registry.Step {
	var groups [][]registry.Step
	for _, next := range registry.Steps(pin.Serving(layout, s, eviction.CanReclaim), s, layout) {
		if n := len(groups) - 1; n >= 0 && next.By.Builtin() && groups[n][0].By == next.By {
			groups[n] = append(groups[n], next)
		} else {
			groups = append(groups, []registry.Step{next})
		}
	}
	return groups
}

// reclaimRun is the action that reclaims: each run executes the next group of steps, and the node
// is observed after each.
type reclaimRun struct {
	demand
	groups  [][]registry.Step
	pass    uint64
	began   time.Time
	request eviction.ReclaimRequest
	did     []decision.Reclaim
	// standIns holds the embedding program's functions that replace steps of plugins.
	standIns map[string]ReclaimFunc
	// skipBecause is why steps of plugins do not run, empty if they do.
	skipBecause string
	// customUntil is the deadline of custom steps, zero for none.
	customUntil time.Time
	metrics     *metrics.Metrics
	log         *slog.Logger
}

func newReclaimRun(l *Loop, p *pass, n demand, groups [][]registry.Step) action {
	r := &reclaimRun{demand: n, groups: groups, standIns: l.Reclaim, skipBecause: l.SkipStepsBecause, pass: p.at.Pass, began: p.now, metrics: l.Metrics, log: l.Log}
	if n.threshold.Hard() {
		r.customUntil = time.Now().Add(hardReclaim)
	}
	return r.prepared(l, p)
}

// prepared fills in r's request: how much is missing and which pods there are. Without a pod list,
// garbage of containers can still be removed by other rules.
func (r *reclaimRun) prepared(l *Loop, p *pass) action {
	r.request = eviction.ReclaimRequest{Pass: r.pass, Signal: r.threshold.Signal}
	seen := r.observed
	if r.left != nil {
		seen = r.left
	}
	for _, t := range l.observer.Thresholds.InForce() {
		if t.Signal == r.threshold.Signal {
			r.request.Shortfall = max(r.request.Shortfall, policy.Shortfall(t, seen[t.Signal]))
		}
	}
	if slices.ContainsFunc(slices.Concat(r.groups...), func(s registry.Step) bool { return r.standIns[s.Name] == nil }) { // otherwise the embedding program knows its pods
		if listed, err := p.list(); err == nil {
			r.request.AllSourcesReady, r.request.Pods = listed.Complete, l.victims.Phases(listed)
		}
	}
	return r
}

func (*reclaimRun) quick() bool { return false }

// run executes the next group with the current plugins, since one may have been replaced.
func (r *reclaimRun) run(ctx context.Context, pin *registry.Pin) {
	group := r.groups[0]
	r.groups = r.groups[1:]
	for _, s := range group {
		if now := pin.Named(s.By.Name); now != nil && now.Plugin.Reclaimer != nil {
			s.By = now
		}
		started := time.Now()
		out := r.runStep(ctx, s)
		out.TookSeconds = time.Since(started).Round(time.Millisecond).Seconds()
		r.did = append(r.did, out)
		if out.NotRun != "" {
			r.log.Info("reclaim step not run", "signal", r.threshold.Signal, "step", out.Step, "by", out.By, "reason", out.NotRun)
			continue
		}
		level := slog.LevelInfo
		if out.Err != "" {
			level = slog.LevelError
		}
		r.log.Log(ctx, level, "reclaim step ended", "signal", r.threshold.Signal, "step", out.Step, "by", out.By,
			"bytesFreed", out.BytesFreed, "inodesFreed", out.InodesFreed, "tookSeconds", out.TookSeconds, "message", out.Message, "error", out.Err)
	}
}

// runStep runs a step, a custom one within customUntil.
func (r *reclaimRun) runStep(ctx context.Context, s registry.Step) decision.Reclaim {
	out := decision.Reclaim{Step: s.Name, By: embedder}
	standIn := r.standIns[s.Name]
	if standIn == nil && r.skipBecause != "" {
		out.By, out.NotRun = s.By.Name, r.skipBecause
		return out
	}
	cancel := func() {}
	switch {
	case standIn != nil:
		ctx, cancel = context.WithTimeout(ctx, mostReclaim)
	case !s.By.Builtin() && !r.customUntil.IsZero():
		ctx, cancel = context.WithDeadline(ctx, r.customUntil)
	}
	defer cancel()
	var err error
	if standIn != nil {
		err = standIn(ctx)
	} else {
		req := r.request
		req.Signal, req.Step, out.By = s.Signal, s.Name, s.By.Name
		var released eviction.Reclaimed
		released, err = s.By.Plugin.Reclaimer.Reclaim(ctx, req, func(eviction.Reclaimed) {})
		out.BytesFreed, out.InodesFreed, out.Message = released.Bytes, released.Inodes, released.Message
		if err != nil {
			r.metrics.CallFailed(s.By.Name, "reclaim", err)
		}
	}
	if err != nil {
		out.Err = err.Error()
	}
	return out
}

// conclude observes the node, and continues with the next group or an eviction unless every
// threshold concerned is satisfied. From here on p measures the current state, unless it is still
// the pass that began r.
func (r *reclaimRun) conclude(ctx context.Context, l *Loop, p *pass) action {
	r.reclaimed = slices.Clone(r.did)
	p.acted = &r.demand
	t, thresholds := r.threshold, l.observer.Thresholds
	if !thresholds.Has(t) { // a reload has done away with it
		l.status.reclaimed(r.soFar(false))
		return nil
	}
	concerned := policy.Concerned(t, thresholds.Served(p.pin, thresholds.InForce()))
	after := eviction.PassView{Pass: p.at.Pass, View: eviction.ViewAfterReclaim}
	if p.at.Pass != r.Pass {
		p.at = after
	}
	observed := l.observer.Again(ctx, observe.Request{Pin: p.pin, At: after, State: l.state}, concerned)
	r.left = observed
	p.sufficed = policy.Satisfied(concerned, observed)
	l.status.reclaimed(r.soFar(p.sufficed))
	switch {
	case p.sufficed:
		l.Log.Info("reclaim was enough, no pod has to go", "signal", t.Signal, "threshold", t.Value.String(),
			"available", observed[t.Signal].Available, "before", r.observed[t.Signal].Available)
		return nil
	case len(r.groups) > 0 && !l.Settings.DryRun:
		return r.prepared(l, p)
	case !l.mayTake(ctx, p, t): // must wait for another threshold's victim
		return nil
	default:
		return newChoosing(l, p, r.demand)
	}
}

// soFar returns the progress of r for the status.
func (r *reclaimRun) soFar(sufficed bool) ReclaimStatus {
	return ReclaimStatus{Pass: r.Pass, Time: r.Time, Signal: r.threshold.Signal, Steps: r.did, Sufficed: sufficed}
}
