package loop

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// An action is work that may take long: reclaim, checking limits or choosing a victim.
type action interface {
	// condition returns the condition acted on, which allows one action at a time; "" for none.
	condition() eviction.Condition
	// quick reports whether the action is too short to be worth a goroutine.
	quick() bool
	// run does the slow work. It must not touch the state of the loop.
	run(ctx context.Context, pin *registry.Pin)
	// conclude applies the result in the loop, in the pass that began the action or a later one,
	// and returns the next action, nil for none.
	conclude(ctx context.Context, l *Loop, p *pass) action
}

// do runs an action and the actions that follow from it: within p if p is synchronous, else in the
// background.
func (l *Loop) do(ctx context.Context, p *pass, a action) {
	for a != nil && ctx.Err() == nil {
		if !p.synchronous && !a.quick() {
			l.background(ctx, a)
			return
		}
		a.run(ctx, p.pin)
		a = a.conclude(ctx, l, p)
	}
}

// background runs an action in a goroutine with the plugins that run now. Those that serve its
// condition are not replaced meanwhile; others, which may hang, may be. Run calls concluded with
// the finished action.
func (l *Loop) background(ctx context.Context, a action) {
	c := a.condition()
	if c != "" {
		l.busy[c] = true
	}
	l.working.Go(func() {
		pin := l.options.Pin()
		defer pin.Release()
		pin.Keep(func(i *registry.Instance) bool {
			return slices.ContainsFunc(i.Plugin.Signals, func(s eviction.SignalSpec) bool {
				return policy.Threshold{Signal: s.Signal, Custom: s.Definition}.Definition().Condition == cmp.Or(c, policy.LocalStorage.Definition().Condition)
			})
		})
		a.run(ctx, pin)
		select {
		case l.done <- a:
		case <-ctx.Done():
		}
	})
}

// concluded applies a finished action without making the next pass earlier: a node with no pod to
// evict would otherwise reclaim without a pause.
func (l *Loop) concluded(ctx context.Context, a action) {
	delete(l.busy, a.condition())
	p := l.newPass(ctx, wake.Scope{})
	defer p.end()
	l.do(ctx, p, a.conclude(ctx, l, p))
	l.conclude(p)
	if p.incomplete {
		l.schedule.Ended(time.Now(), l.settings.MonitoringInterval, wake.Result{Incomplete: true})
	}
}

// act acts on the most urgent actionable threshold. If that is of a custom signal, it acts on the
// next one as well: a vendor's signal that stays low must not keep other reclaim steps from
// running. Still at most one pod is evicted.
func (l *Loop) act(ctx context.Context, p *pass) {
	pace := l.settings.pacer()
	for ctx.Err() == nil {
		// Skip thresholds whose condition has an action under way, and those that must wait for the
		// relief of a former victim.
		t, ok := policy.Choose(slices.DeleteFunc(slices.Clone(p.assessment.Actionable), func(t policy.Threshold) bool {
			return l.busy[t.Definition().Condition] || !pace.mayGo(ctx, l, p, t, nil)
		}))
		if !ok {
			return
		}
		reason, message := policy.NodeEvent(t)
		l.nodeEvent("Warning", reason, message)
		l.do(ctx, p, l.answerTo(p, t))
		if t.Custom == nil || !l.busy[t.Definition().Condition] || !pace.mayPass(l) {
			return
		}
	}
}

// answerTo returns the action for t: reclaim if there are steps for it, else an eviction.
func (l *Loop) answerTo(p *pass, t policy.Threshold) action {
	demand := demand{threshold: t, view: p.view, budget: p.budget.For(t)}
	steps := stepsFor(p.pin, l.observer.Thresholds.Layout, t.Signal)
	if len(steps) > 0 && !l.settings.DryRun {
		return newReclaimRun(l, p, demand, steps)
	}
	for _, s := range slices.Concat(steps...) {
		demand.reclaimed = append(demand.reclaimed, decision.Reclaim{Step: s.Name, By: s.By.Name, NotRun: "this is a dry run"})
	}
	if len(steps) > 0 {
		l.options.Log.Info("dry run, nothing is reclaimed before the eviction", "signal", t.Signal)
	}
	return newChoosing(l, p, demand)
}

// nodeEvent sends an event about the node. A dry run sends none.
func (l *Loop) nodeEvent(eventType, reason, message string) {
	if !l.settings.DryRun {
		l.options.Recorder.NodeEvent(eventType, reason, message)
	}
}

// kill kills a victim, in the background unless p is synchronous.
func (l *Loop) kill(ctx context.Context, p *pass, v *victim.Victim) {
	if !v.DryRun {
		l.options.Metrics.Evicted(v.Signal)
	}
	if p.synchronous {
		l.victims.KillNow(ctx, v)
	} else {
		l.victims.Kill(v, l.settings.pacer().await())
	}
	p.evicted = append(p.evicted, *v)
}
