package loop

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/choose"
	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// An action is something to be done that may take long: to reclaim, to check limits, to
// choose a pod that has to go.
type action interface {
	// condition is for which it is done: meanwhile nothing else is. Empty for none.
	condition() eviction.Condition
	// quick: it is not worth a goroutine.
	quick() bool
	// run does what takes long. It touches no state of the loop.
	run(ctx context.Context, pin *registry.Pin)
	// conclude draws the conclusions in the loop, within the pass that has begun it or
	// later, and returns what is to be done next, nil for nothing.
	conclude(ctx context.Context, l *Loop, p *pass) action
}

// do does an action and what follows from it: within p if p waits for all that it
// begins, else in the background.
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

// background runs an action in a goroutine, with the plugins that run now: those that serve
// its condition are not replaced under way. Others are, which may hang. concluded goes on
// when it has run.
func (l *Loop) background(ctx context.Context, a action) {
	c := a.condition()
	if c != "" {
		l.busy[c] = true
	}
	l.working.Go(func() {
		pin := l.Pin()
		defer pin.Release()
		pin.Keep(func(i *registry.Instance) bool {
			return serves(i, cmp.Or(c, policy.LocalStorage.Definition().Condition))
		})
		a.run(ctx, pin)
		select {
		case l.done <- a:
		case <-ctx.Done():
		}
	})
}

// serves reports whether a plugin has a signal of c.
func serves(i *registry.Instance, c eviction.Condition) bool {
	return slices.ContainsFunc(i.Plugin.Signals, func(s eviction.SignalSpec) bool {
		return policy.Threshold{Signal: s.Signal, Custom: s.Definition}.Definition().Condition == c
	})
}

// concluded does not hurry the next pass: where no pod can be evicted that would reclaim
// without a pause.
func (l *Loop) concluded(ctx context.Context, a action) {
	delete(l.busy, a.condition())
	p := l.newPass(ctx, wake.Scope{})
	defer p.end()
	l.do(ctx, p, a.conclude(ctx, l, p))
	l.record(p)
	if p.incomplete {
		l.schedule.Ended(time.Now(), l.Settings.MonitoringInterval, wake.Result{Incomplete: true})
	}
}

// act does what the most urgent actionable threshold asks for. If that is of a custom
// signal, the next one has its turn as well: one vendor's signal that is low for good must
// not keep the steps of another from running. There still is one victim.
func (l *Loop) act(ctx context.Context, p *pass) {
	for ctx.Err() == nil {
		// Thresholds of a condition that something is done for have got their action, and
		// those that a former victim's relief is waited for.
		t, ok := policy.Choose(slices.DeleteFunc(slices.Clone(p.assessment.Actionable), func(t policy.Threshold) bool {
			return l.busy[t.Definition().Condition] || !l.mayTake(ctx, p, t)
		}))
		if !ok {
			return
		}
		reason, message := policy.NodeEvent(t)
		l.nodeEvent("Warning", reason, message)
		l.do(ctx, p, l.answerTo(p, t))
		if t.Custom == nil || !l.busy[t.Definition().Condition] || l.Settings.asKubelet() {
			return
		}
	}
}

// answerTo returns the action for t: reclaim if there is a step, else the eviction of a pod.
func (l *Loop) answerTo(p *pass, t policy.Threshold) action {
	demand := demand{threshold: t, view: p.view}
	steps := stepsFor(p.pin, l.observer.Thresholds.Layout, t.Signal)
	if len(steps) > 0 && !l.Settings.DryRun {
		return newReclaimRun(l, p, demand, steps)
	}
	for _, s := range slices.Concat(steps...) {
		demand.reclaimed = append(demand.reclaimed, decision.Reclaim{Step: s.Name, By: s.By.Name, NotRun: "this is a dry run"})
	}
	if len(steps) > 0 {
		l.Log.Info("dry run, nothing is reclaimed before the eviction", "signal", t.Signal)
	}
	return newChoosing(l, p, demand)
}

// nodeEvent sends an event about the node. A dry run sends none.
func (l *Loop) nodeEvent(eventType, reason, message string) {
	if !l.Settings.DryRun {
		l.Recorder.NodeEvent(eventType, reason, message)
	}
}

// mayTake reports whether a pod may go for t now. If none may while a victim of a
// soft threshold is ending, t shortens its grace.
func (l *Loop) mayTake(ctx context.Context, p *pass, t policy.Threshold) bool {
	if l.Settings.asKubelet() {
		return true
	}
	if l.victims.Pretending() {
		return false
	}
	o := l.observer.Last(t.Signal)
	v := l.victims.Relief.Judge(t, o)
	if len(v.Measure) > 0 && t.Definition().Condition.CheapToMeasure() {
		l.measureAgain(ctx, p, t, v.Measure)
		v = l.victims.Relief.Judge(t, o)
	}
	if !v.Go {
		l.victims.Shorten(t)
	}
	return v.Go
}

// measureAgain reads what victims of t that are still ending use now.
func (l *Loop) measureAgain(ctx context.Context, p *pass, t policy.Threshold, uids []string) {
	var ending []pods.Pod
	for uid, v := range l.victims.Ending() {
		if slices.Contains(uids, uid) {
			ending = append(ending, v.Pod)
		}
	}
	at, layout := l.moment(), l.observer.Thresholds.Layout
	measured := l.chooser.Measure(ctx, choose.Measuring{
		Measurers: p.pin.Serving(layout, t.Signal, eviction.CanMeasure), At: p.at, Signal: t.Signal, Detail: eviction.DetailPod,
	}, ending)
	for _, uid := range uids {
		if use := choose.Reliable(p.pin, layout, measured[uid], t.Signal); use.OK {
			l.victims.Relief.Measured(uid, t, layout, use, at)
		}
	}
}

// kill has a victim killed, in the background unless p waits.
func (l *Loop) kill(ctx context.Context, p *pass, v *victim.Victim) {
	if !v.DryRun {
		l.Metrics.Evicted(v.Signal)
	}
	if p.synchronous {
		l.victims.KillNow(ctx, v)
	} else {
		l.victims.Kill(v, l.Settings.asKubelet())
	}
	p.evicted = append(p.evicted, *v)
}
