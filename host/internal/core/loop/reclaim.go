package loop

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// embedder is the provider name of steps that the embedding program runs.
	embedder = "embedding program"
	// mostReclaim bounds a step of the embedding program, like one of a plugin.
	mostReclaim = 10 * time.Minute
)

// stepsFor returns the steps for s in layout, including those listed for another signal of its
// filesystem, in groups: each step of a custom plugin and each optional step alone, and those of
// the built-in plugin together.
func stepsFor(pin *registry.Pin, layout eviction.Layout, s eviction.Signal) [][]registry.Step {
	var groups [][]registry.Step
	for _, next := range registry.Steps(pin.Serving(layout, s, eviction.CanReclaim), s, layout) {
		if n := len(groups) - 1; n >= 0 && next.By.Builtin() && groups[n][0].By == next.By && !next.Optional && !groups[n][0].Optional {
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
	// beside: an eviction that a kubelet would make at once waits no longer than the budget allows.
	// Steps that take longer run on beside it. waited ends the wait.
	beside  bool
	waited  func()
	working *sync.WaitGroup
	pins    func() *registry.Pin
	metrics Metrics
	log     *slog.Logger
}

func newReclaimRun(l *Loop, p *pass, n demand, groups [][]registry.Step) action {
	r := &reclaimRun{demand: n, groups: groups, standIns: l.options.Reclaim, skipBecause: l.options.SkipStepsBecause, pass: p.at.Pass, began: p.now, working: &l.working, pins: l.options.Pin, metrics: l.options.Metrics, log: l.options.Log}
	if r.beside = n.budget != nil && observe.Prompt(n.threshold); r.beside {
		_, r.waited = n.budget.Wait(nil)
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

// run executes the next group with the current plugins, since one may have been replaced. Groups of
// which nothing is run change nothing, so it goes on.
func (r *reclaimRun) run(ctx context.Context, pin *registry.Pin) {
	for ran := false; !ran && len(r.groups) > 0; r.groups = r.groups[1:] {
		ran = r.group(ctx, pin, r.groups[0])
	}
}

func (r *reclaimRun) group(ctx context.Context, pin *registry.Pin, group []registry.Step) (ran bool) {
	for _, s := range group {
		if now := pin.Named(s.By.Name); now != nil && now.Plugin.Reclaimer != nil {
			s.By = now
		}
		out := r.step(ctx, s, pin.Slow(s.By))
		r.did = append(r.did, out)
		ran = ran || out.NotRun == ""
	}
	return ran
}

// step runs a step as long as the budget allows, and says how far it got.
func (r *reclaimRun) step(ctx context.Context, s registry.Step, slow bool) decision.Reclaim {
	out := decision.Reclaim{Step: s.Name, By: s.By.Name}
	run := stepRun{Step: s, request: r.request, standIn: r.standIns[s.Name], signal: r.threshold.Signal, metrics: r.metrics, log: r.log}
	run.request.Signal, run.request.Step = s.Signal, s.Name
	var err error
	switch {
	case run.standIn != nil:
		return run.run(ctx)
	case r.skipBecause != "":
		out.NotRun = r.skipBecause
	case r.beside && slow:
		out.NotRun = "the plugin is on standby"
	case r.beside:
		if err = r.budget.Call(ctx, s.By, func(wait context.Context) error { return r.start(ctx, wait, run, &out) }); err == nil {
			return out
		}
	default:
		if err = r.budget.Call(ctx, s.By, func(ctx context.Context) error { out = run.run(ctx); return nil }); err == nil {
			return out
		}
	}
	if err != nil {
		out.NotRun = err.Error()
	}
	r.log.Info("reclaim step not run", "signal", r.threshold.Signal, "step", out.Step, "by", out.By, "reason", out.NotRun)
	return out
}

// start starts a step, which keeps its plugin until it ends, and waits for it as long as wait lasts.
func (r *reclaimRun) start(ctx, wait context.Context, run stepRun, out *decision.Reclaim) error {
	began, ended := time.Now(), make(chan decision.Reclaim, 1)
	r.working.Go(func() {
		pin := r.pins()
		defer pin.Release()
		pin.Keep(func(i *registry.Instance) bool { return i == run.By })
		ended <- run.run(ctx)
	})
	select {
	case *out = <-ended:
	case <-wait.Done():
		out.TookSeconds, out.Err = time.Since(began).Round(time.Millisecond).Seconds(), "still running, the decision does not wait any longer"
	}
	return nil
}

// stepRun is one call of a step. It shares nothing with the reclaim that began it, and may outlast
// it.
type stepRun struct {
	registry.Step

	request eviction.ReclaimRequest
	standIn ReclaimFunc
	signal  eviction.Signal
	metrics Metrics
	log     *slog.Logger
}

func (r *stepRun) run(ctx context.Context) decision.Reclaim {
	began, out := time.Now(), decision.Reclaim{Step: r.Name, By: embedder}
	var err error
	if r.standIn != nil {
		ctx, cancel := context.WithTimeout(ctx, mostReclaim)
		defer cancel()
		err = r.standIn(ctx)
	} else {
		out.By = r.By.Name
		var released eviction.Reclaimed
		released, err = r.By.Plugin.Reclaimer.Reclaim(ctx, r.request, func(eviction.Reclaimed) {})
		out.BytesFreed, out.InodesFreed, out.Message = released.Bytes, released.Inodes, released.Message
		if err != nil {
			r.metrics.CallFailed(out.By, "reclaim", err)
		}
	}
	level := slog.LevelInfo
	if err != nil {
		level, out.Err = slog.LevelError, err.Error()
	}
	out.TookSeconds = time.Since(began).Round(time.Millisecond).Seconds()
	r.log.Log(ctx, level, "reclaim step ended", "signal", r.signal, "step", out.Step, "by", out.By,
		"bytesFreed", out.BytesFreed, "inodesFreed", out.InodesFreed, "tookSeconds", out.TookSeconds, "message", out.Message, "error", out.Err)
	return out
}

// conclude observes the node, and continues with the next group or an eviction unless every
// threshold concerned is satisfied. From here on p measures the current state, unless it is still
// the pass that began r.
func (r *reclaimRun) conclude(ctx context.Context, l *Loop, p *pass) action {
	r.reclaimed = slices.Clone(r.did)
	p.acted, p.budget = &r.demand, r.budget
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
	observed := l.observer.Again(ctx, observe.Request{Pin: p.pin, At: after, State: l.state, Budget: r.budget}, concerned)
	r.left = observed
	p.sufficed = policy.Satisfied(concerned, observed)
	l.status.reclaimed(r.soFar(p.sufficed))
	switch {
	case p.sufficed:
		l.options.Log.Info("reclaim was enough, no pod has to go", "signal", t.Signal, "threshold", t.Value.String(),
			"available", observed[t.Signal].Available, "before", r.observed[t.Signal].Available)
		return nil
	case len(r.groups) > 0 && !l.settings.DryRun:
		return r.prepared(l, p)
	}
	if r.beside {
		r.waited()
	}
	if !l.settings.pacer().mayGo(ctx, l, p, t, nil) { // must wait for another threshold's victim
		return nil
	}
	return newChoosing(l, p, r.demand)
}

// soFar returns the progress of r for the status.
func (r *reclaimRun) soFar(sufficed bool) ReclaimStatus {
	return ReclaimStatus{Pass: r.Pass, Time: r.Time, Signal: r.threshold.Signal, Steps: r.did, Sufficed: sufficed}
}
