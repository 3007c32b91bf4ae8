package loop

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// A pass is one pass while it runs, or the conclusion of an action that an earlier pass began.
type pass struct {
	scope wake.Scope
	pin   *registry.Pin
	// budget bounds the wait for custom plugins.
	budget *observe.Budget
	// synchronous: the pass waits for slow work and kills, and puts nothing off.
	synchronous bool
	started     time.Time
	// at identifies the pass to plugins that measure pods for a ranking.
	at eviction.PassView
	// now is the time that policy uses.
	now time.Time
	// observedAt is when the node was observed, on the machine's clock.
	observedAt time.Time
	seen       observe.Seen
	assessment policy.Assessment
	// concluded: assessment is valid.
	concluded bool
	// incomplete: figures were missing, or the pass could not act.
	incomplete bool
	// view is empty until assessment is valid.
	view view
	// choice holds the ranked pods for the threshold that was acted on.
	choice choose.Choice
	// checked is the limit check that evicted pods, nil if none did.
	checked *limitCheck
	// acted is the demand that was acted on, nil for none. nobody is then the reason why no pod can
	// be evicted, sufficed reports that reclaim was enough.
	acted    *demand
	nobody   string
	sufficed bool
	// decision is nil until the pass has decided.
	decision *decision.Decision
	// evicted holds the victims of the pass.
	evicted []victim.Victim

	// list lists the pods, once. A wake mostly means that a pod must be evicted, and the runtime's
	// answer takes longer than anything else before the decision: so the call may start early,
	// tracked by listing.
	list    func() (pods.Snapshot, error)
	listing sync.WaitGroup
	cancel  context.CancelFunc
}

func (l *Loop) newPass(ctx context.Context, scope wake.Scope) *pass {
	l.passes++
	ctx, cancel := context.WithCancel(ctx)
	return &pass{
		scope: scope, pin: l.pin(), started: time.Now(), at: eviction.PassView{Pass: l.passes, View: eviction.ViewBefore},
		list: sync.OnceValues(func() (pods.Snapshot, error) { return l.chooser.List(ctx) }), cancel: cancel,
	}
}

// end releases the resources of the pass.
func (p *pass) end() {
	p.cancel()
	p.listing.Wait()
	p.pin.Release()
}

func (p *pass) trigger() string {
	if p.synchronous {
		return "request"
	}
	return p.scope.Trigger()
}

// pass makes a pass that does not wait for slow work.
func (l *Loop) pass(ctx context.Context, scope wake.Scope) {
	if scope.Full {
		l.manifests.begin(ctx, l.settings.MonitoringInterval, &l.working)
	}
	p := l.newPass(ctx, scope)
	defer p.end()
	if err := l.run(ctx, p); err != nil && ctx.Err() == nil {
		l.options.Log.Error("pass ended early, nothing is concluded from it", "pass", p.at.Pass, "error", err)
		p.incomplete = true
	}
	if ctx.Err() == nil {
		l.finish(p)
	}
}

// synchronize makes a pass that a caller waits for.
func (l *Loop) synchronize(ctx context.Context) (PassResult, error) {
	p := l.newPass(ctx, wake.Scope{Full: true})
	p.synchronous = true
	defer p.end()
	err := l.run(ctx, p)
	d := l.finish(p)
	out := PassResult{Conditions: l.status.now().Conditions, ReclaimSufficed: p.sufficed, Evicted: p.evicted}
	if d != nil {
		out.Decision = *d
	}
	return out, err
}

// run observes what p asks for, assesses it and acts on it. The error says why nothing was
// concluded.
func (l *Loop) run(ctx context.Context, p *pass) (err error) {
	p.now = l.options.Now()
	if !l.options.Simulated {
		l.budget = observe.NewBudget(l.budget)
		p.budget = l.budget
	}
	if len(l.observer.Thresholds.InForce()) == 0 && !l.settings.LocalStorageLimits && len(l.state.ConditionsLastSeen()) == 0 {
		p.concluded = true
		l.resume(ctx, p)
		return nil
	}
	if p.scope.Crossing() && slices.ContainsFunc(slices.Collect(maps.Keys(p.scope.Woken)), eviction.Condition.CheapToMeasure) && len(l.victims.Ending()) == 0 {
		p.listing.Go(func() { _, _ = p.list() })
	}
	p.seen, err = l.observer.Look(ctx, observe.Request{Pin: p.pin, At: p.at, Scope: p.scope, State: l.state, Budget: p.budget})
	if err != nil {
		return err
	}
	p.now, p.observedAt = l.options.Now(), time.Now()
	before := l.state
	l.state, p.assessment = policy.Assess(before, policy.Input{
		Now: p.now, Thresholds: p.seen.Thresholds, Observations: p.seen.Observations, Claims: p.seen.Claims,
		TransitionPeriod: l.settings.TransitionPeriod,
	})
	p.concluded = true
	p.view = p.seenAs(newDecision(l, p.seen.Thresholds, p.seen.Observations, &p.assessment, p.now))
	logThresholds(l.options.Log, p, before, l.state)
	l.victims.EndPretence(func(v *victim.Victim) bool { // a later pressure is another one
		return !v.Limit && !slices.ContainsFunc(l.observer.Thresholds.InForce(), func(t policy.Threshold) bool {
			return t.Definition().Condition == l.observer.Thresholds.Condition(v.Signal) && l.state.Observed(t)
		})
	})
	l.victims.Relief.Observed(p.seen.Observations, p.assessment.Observed, l.settings.pacer().waits(&p.assessment), l.observer.Last)
	l.noteConditions(p)
	// Before the first kill: as in the kubelet, its victim's place must not be taken.
	l.status.change(func(next *Snapshot) { next.Conditions = append([]eviction.Condition{}, p.assessment.Conditions...) })
	if l.options.Conditions != nil {
		l.options.Conditions(p.assessment.Conditions)
	}
	l.conditions.save(p.now, l.state.ConditionsLastSeen(), l.options.Journal, l.options.Log)
	p.incomplete = slices.ContainsFunc(p.seen.Asked, func(s eviction.Signal) bool {
		o, asked := p.seen.Observations[s]
		return asked && o.State == eviction.Unknown
	})
	if !l.resume(ctx, p) {
		return nil
	}
	if checkLimits(ctx, l, p) {
		return nil
	}
	if len(p.assessment.Actionable) > 0 {
		l.act(ctx, p)
	}
	return nil
}

// logThresholds logs thresholds that have become met, or no longer are.
func logThresholds(log *slog.Logger, p *pass, before, now policy.State) {
	for _, o := range p.assessment.Observed {
		if t, seen := o.Threshold, p.seen.Observations[o.Signal]; !before.Observed(t) {
			log.Info("threshold met", "signal", t.Signal, "threshold", t.Value.String(), "available", seen.Available,
				"capacity", seen.Capacity, "hard", t.Hard(), "gracePeriod", t.GracePeriod.String(), "trigger", p.trigger(), "cause", p.scope.Causes())
		}
	}
	for _, t := range p.seen.Thresholds {
		if before.Observed(t) && !now.Observed(t) {
			log.Info("threshold satisfied", "signal", t.Signal, "threshold", t.Value.String(), "available", p.seen.Observations[t.Signal].Available)
		}
	}
}

// noteConditions logs and counts condition changes, and sends their events.
func (l *Loop) noteConditions(p *pass) {
	a := p.assessment
	for _, c := range a.Conditions {
		l.options.Metrics.Condition(c, true)
	}
	for _, c := range a.Cleared {
		l.options.Metrics.Condition(c, false)
	}
	for i, c := range slices.Concat(a.Raised, a.Cleared) {
		status := i < len(a.Raised)
		text := policy.ConditionText(c, status)
		l.options.Log.Info("condition changed", "condition", c, "status", status, "reason", text.Reason, "message", text.Message)
		if tell := l.options.TellConditions; tell != nil {
			reason, message := tell(c, status, a, p.seen.Observations)
			l.nodeEvent("Normal", reason, message)
		}
	}
}

// resume reassesses the kills that a former host decided on, as far as the observations of p allow,
// and finishes those that are still needed. While that is impossible because the pods or the
// definition of a signal are unknown, no other pod is evicted, and the next pass retries.
func (l *Loop) resume(ctx context.Context, p *pass) (judged bool) {
	if len(l.victims.Restored) == 0 {
		return true
	}
	snapshot, err := p.list()
	if err != nil {
		l.options.Log.Warn("kills of a former evictd are not judged yet, the pods are not known", "kills", len(l.victims.Restored), "error", err)
		p.incomplete = true
		return false
	}
	thresholds := l.observer.Thresholds
	// short reports whether s is known now, and whether one of its thresholds has been met for its
	// whole grace period.
	short := func(s eviction.Signal) (known, is bool) {
		if _, configured := thresholds.Of(s); !configured {
			return true, false
		}
		return l.observer.Last(s).State != eviction.Unknown, slices.ContainsFunc(thresholds.InForce(), func(t policy.Threshold) bool {
			return t.Signal == s && l.state.Stands(t, l.observer.Last(s))
		})
	}
	hold, wait := l.victims.Resume(snapshot, l.settings.DryRun, short)
	for _, v := range hold {
		t, ok := thresholds.Of(v.Signal)
		if v.Limit {
			t, ok = policy.LocalStorage, true
		}
		if ok {
			l.victims.Relief.Expect(v, t, policy.Relieved(t, thresholds.InForce(), thresholds.Layout, eviction.Figure{}), snapshot.Pods, l.observer.Latest())
		}
		l.victims.Kill(v, l.settings.pacer().await())
		if ok {
			l.settings.pacer().evicted(ctx, l, p, v, "")
		}
	}
	if wait {
		l.options.Log.Warn("kills of a former evictd are not judged yet, no other pod goes before", "kills", len(l.victims.Restored))
		p.incomplete = true
	}
	return !wait
}

// finish publishes and records the result of p and schedules the next pass.
func (l *Loop) finish(p *pass) *decision.Decision {
	l.publish(p)
	d := l.conclude(p)
	ended := time.Now()
	l.schedule.Ended(ended, l.settings.MonitoringInterval, wake.Result{
		Scope: p.scope, Met: len(p.assessment.Observed) > 0, Incomplete: p.incomplete,
		GraceLeft: policy.UntilGraceEnds(p.assessment, p.now), LookAt: slices.Concat(l.observer.LookAt(ended), l.victims.Relief.LookAt()),
	})
	l.options.Metrics.Passed(p.trigger(), ended.Sub(p.started))
	l.options.Log.Debug("pass", "pass", p.at.Pass, "trigger", p.trigger(), "cause", p.scope.Causes(), "tookSeconds", ended.Sub(p.started).Seconds())
	return d
}

// conclude records the result of p, and returns the decision.
func (l *Loop) conclude(p *pass) *decision.Decision {
	d := p.decided(l.options.Explain || l.options.Records != nil)
	out := Conclusion{Decision: d, Later: d != nil && d.Pass != p.at.Pass, ReclaimSufficed: p.sufficed, Evicted: p.evicted, Victims: l.victims.History()}
	if p.concluded {
		out.Waiting = l.victims.Relief.Waiting()
	}
	l.record(out)
	return d
}

// record passes c to the records, if any are kept.
func (l *Loop) record(c Conclusion) {
	if l.options.Records != nil {
		l.options.Records.Passed(c)
	}
}

// publish updates the snapshot after p.
func (l *Loop) publish(p *pass) {
	l.status.change(func(next *Snapshot) {
		next.Passes++
		thresholds := l.observer.Thresholds
		if p.concluded {
			next.Time = time.Now()
			next.Thresholds = decision.Thresholds(thresholds.InForce(), &p.assessment, p.now)
			for i := range next.Thresholds {
				next.Thresholds[i].Unobserved = l.observer.Unobserved(next.Thresholds[i].Signal)
			}
			next.shortages = shortages(thresholds.InForce(), l.state, l.observer.Last)
			next.Waiting = l.victims.Relief.Waiting()
			next.Signals = wokenBy(l.observer.Statuses(), next.Signals, p.scope)
		}
		next.Layout = ""
		if thresholds.Layout != 0 {
			next.Layout = thresholds.Layout.String()
		}
		next.AssignProblems = thresholds.Split
	})
}
