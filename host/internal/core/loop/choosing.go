package loop

import (
	"context"
	"log/slog"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A demand is a threshold that is acted on, with the view of the pass that found it: messages of
// evictions use the figures observed before any reclaim.
type demand struct {
	threshold policy.Threshold
	// reclaimed holds the steps run for it so far, left the observations after them.
	reclaimed []decision.Reclaim
	left      map[eviction.Signal]eviction.Observation
	budget    *observe.Budget
	view
}

func (n demand) condition() eviction.Condition { return n.threshold.Definition().Condition }

// choosing is the action that chooses a pod and evicts it.
type choosing struct {
	demand
	chooser *choose.Chooser
	request choose.Request
	began   time.Time
	choice  choose.Choice
}

func newChoosing(l *Loop, p *pass, n demand) action {
	c := &choosing{demand: n, chooser: l.chooser, began: time.Now(), request: request(l, n.threshold, n.observed[n.threshold.Signal], p.at)}
	c.request.Budget, c.request.MeasureOn = n.budget, !p.synchronous // memory waits for a synchronous pass
	if n.threshold.Hard() && n.condition() == eviction.MemoryPressure && !p.synchronous {
		c.request.Left = l.observer.Left(n.threshold.Relieves())
	}
	if p.synchronous || c.quick() {
		c.request.List = func(context.Context) (pods.Snapshot, error) { return p.list() }
	}
	return c
}

// request returns the request for a victim of t.
func request(l *Loop, t policy.Threshold, o eviction.Observation, at eviction.PassView) choose.Request {
	leaving := l.victims.Leaving()
	return choose.Request{
		Threshold: t, Observation: o, Layout: l.observer.Thresholds.Layout, At: at,
		Ending: func(uid string) bool { return leaving[uid] }, Veto: l.settings.RankVeto.standsFor(t), List: l.chooser.List,
	}
}

// quick reports whether pods are cheap to measure. Others are measured in the background: their
// condition counts as acted on, and memory does not wait for it.
func (c *choosing) quick() bool { return c.condition().CheapToMeasure() }

func (c *choosing) run(ctx context.Context, pin *registry.Pin) {
	c.choice = c.chooser.Choose(ctx, pin, c.request)
}

// conclude evicts the first of the chosen pods if the threshold still calls for it. If it cannot,
// the pass is incomplete.
func (c *choosing) conclude(ctx context.Context, l *Loop, p *pass) action {
	p.acted, p.budget = &c.demand, c.budget
	t, choice := c.threshold, &c.choice
	later := p.at.Pass != c.request.At.Pass // time has gone by
	switch {
	case ctx.Err() != nil:
		return nil
	case later && (!l.observer.Thresholds.Has(t) || !l.state.Stands(t, l.observer.Last(t.Signal))):
		l.options.Log.Info("threshold no longer met, no pod has to go", "signal", t.Signal, "threshold", t.Value.String())
		return nil
	case later && (!l.resume(ctx, p) || !l.settings.pacer().mayGo(ctx, l, p, t, nil)): // must wait for another threshold's victim, or a former host's
		return nil
	case choice.Err != nil:
		l.options.Log.Error("pods are not known, nothing is evicted", "signal", t.Signal, "error", choice.Err)
		p.incomplete = true
		return nil
	}
	l.manifests.overtaken = true
	l.status.listed(choice.Snapshot)
	l.victims.Listed(choice.Snapshot)
	l.options.PodUsage(t.Signal, false, choice.Used(t.Signal), time.Now().Add(2*l.settings.MonitoringInterval))
	if choice.TooSoon {
		l.options.Log.Info("no pod is chosen before its plugin has started, which would be by priority alone", "signal", t.Signal, "candidates", len(choice.Candidates))
		p.incomplete = true
		return nil
	}
	leaving := l.victims.Leaving()
	choice.Drop(func(uid string) bool { return leaving[uid] || later && l.victims.EndedSince(uid, c.began) })
	p.choice = *choice
	now := time.Now()
	for _, t := range c.actionable { // like the kubelet after ranking
		if at := c.observed[t.Signal].Time; !at.IsZero() {
			l.options.Metrics.StatsAge(t.Signal, now.Sub(at))
		}
	}
	if len(choice.Order) == 0 {
		p.nobody = choice.WhyNobody(func(uid string) bool { return leaving[uid] })
		level := slog.LevelWarn
		if now := l.status.now(); t.Hard() && now.evictable == 0 && len(now.Unmanaged) > 0 {
			level = slog.LevelError
		}
		l.options.Log.Log(ctx, level, "no pod can be evicted", "signal", t.Signal, "threshold", t.Value.String(), "available", c.observed[t.Signal].Available,
			"active", len(choice.Snapshot.Pods), "candidates", len(choice.Candidates), "ranker", choice.Ranker, "reason", p.nobody)
		l.schedule.Hold(c.condition(), now)
		return nil
	}
	if !l.settings.pacer().mayGo(ctx, l, p, t, c) {
		return nil
	}
	c.evict(ctx, l, p)
	return nil
}

// evict kills the first pod of the choice.
func (c *choosing) evict(ctx context.Context, l *Loop, p *pass) {
	t, choice, o := c.threshold, &c.choice, c.observed[c.threshold.Signal]
	pod, measured := choice.First()
	message, annotations := policy.Message(l.settings.PodLevelResources, pod.API, t, o, measured)
	override := policy.GraceOverride(t, l.settings.MaxPodGracePeriodSeconds, pod.API.Spec.TerminationGracePeriodSeconds)
	chosen := victim.New(pod, t.Signal, override, message, annotations)
	chosen.Hard, chosen.DryRun, chosen.Ranker, chosen.RankReason = t.Hard(), l.settings.DryRun, choice.Ranker, choice.Order[0].Reason
	if l.options.Records != nil {
		chosen.Why = l.options.Records.Why(p.decided(true))
	}
	v, layout := l.victims.Start(chosen), l.observer.Thresholds.Layout
	use := choose.Reliable(p.pin, layout, measured, t.Signal)
	v.Promised = use
	l.victims.Relief.Expect(v, t, policy.Relieved(t, l.observer.Thresholds.InForce(), layout, use), choice.Snapshot.Pods, policy.Newest(c.observed, l.observer.Latest(), c.left))
	l.options.Log.Info("evicting pod", "pod", v.Key(), "uid", v.UID, "signal", t.Signal, "threshold", t.Value.String(),
		"available", o.Available, "capacity", o.Capacity, "hard", t.Hard(), "graceSeconds", v.GraceSeconds,
		"ranker", v.Ranker, "rankReason", v.RankReason, "candidates", len(choice.Candidates), "ranking", choice.Shown(),
		"message", message, "why", v.Why, "notNew", choose.Inputs(choice.Snapshot.Stale), "dryRun", v.DryRun, "record", v.Record)
	l.kill(ctx, p, v)
	if !v.DryRun {
		l.settings.pacer().evicted(ctx, l, p, v, c.condition())
	}
}
