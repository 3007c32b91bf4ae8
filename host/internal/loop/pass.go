package loop

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

// A pass is one pass while it runs.
type pass struct {
	scope  wake.Scope
	roster Roster
	// waits: slow work and kills are waited for, and nothing is put off.
	waits   bool
	started time.Time
	// at is where pods are measured for a ranking.
	at eviction.PassView
	// now is the time that policy sees, thresholds what it looks at.
	now        time.Time
	thresholds []policy.Threshold
	observed   map[eviction.Signal]eviction.Observation
	// asked are the signals of thresholds that it looked at.
	asked      []eviction.Signal
	assessment policy.Assessment
	// concluded: assessment holds.
	concluded bool
	// incomplete: figures were missing, or it could not act.
	incomplete bool
	listing    *listing
	did        deeds
}

// deeds are what a pass did, for its outcome.
type deeds struct {
	chosen   *policy.Threshold
	reclaim  []ReclaimOutcome
	sufficed bool
	ranking  ranking
	// candidates are what was ranked.
	candidates []pods.Pod
	evicted    []victim.Victim
}

func (l *Loop) newPass(k wake.Scope) *pass {
	l.passes++
	roster := l.Pin()
	l.define(roster)
	return &pass{scope: k, roster: roster, started: time.Now(), at: eviction.PassView{Pass: l.passes, View: eviction.ViewBefore}}
}

// end gives up what the pass holds.
func (p *pass) end() {
	p.listing.drop()
	p.roster.Release()
}

// pass makes the pass that k asks for.
func (l *Loop) pass(ctx context.Context, k wake.Scope) {
	p := l.newPass(k)
	defer p.end()
	if err := l.run(ctx, p); err != nil && ctx.Err() == nil {
		l.Log.Error("pass ended early, nothing is concluded from it", "pass", p.at.Pass, "error", err)
		p.incomplete = true
	}
	if ctx.Err() == nil {
		l.finish(p)
	}
}

// run observes what p asks for, assesses it and does what follows. The error is
// why nothing was concluded.
func (l *Loop) run(ctx context.Context, p *pass) error {
	p.now = l.Now()
	if len(l.filesystems.inForce) == 0 && !l.Settings.LocalStorageLimits && len(l.state.ConditionsLastSeen()) == 0 {
		p.concluded = true
		l.resume(ctx, p)
		return nil
	}
	if p.scope.Crossing() && slices.ContainsFunc(slices.Collect(maps.Keys(p.scope.Woken)), eviction.Condition.CheapToMeasure) && len(l.victims.Ending()) == 0 {
		l.list(ctx, p)
	}
	signals := l.signals(p.scope, l.filesystems.inForce)
	layout := l.wantsLayout(p.scope)
	l.begin(ctx, p.at, layout)
	asked := signals
	if layout {
		asked = withContainerFs(signals)
	}
	seen := l.observe(ctx, p.roster, p.at, asked, layout)
	if err := ctx.Err(); err != nil {
		return err
	}
	inForce, err := l.settleLayout(seen.layout)
	switch {
	case err != nil && l.Settings.LayoutOnce:
		return err
	case err != nil:
		inForce = l.withoutLayout(seen.signals, err)
	}
	p.now, p.observed = l.Now(), seen.signals
	p.asked = signals
	l.noteObserved(signals, seen.signals)
	l.contradict.note(p.now, l.filesystems.inForce, signals, seen.claims)
	p.thresholds = l.served(p.roster, inForce)
	l.state, p.assessment = policy.Assess(l.state, policy.Input{
		Now:              p.now,
		Thresholds:       p.thresholds,
		Observations:     seen.signals,
		Claims:           seen.claims,
		TransitionPeriod: l.Settings.TransitionPeriod,
	})
	p.concluded = true
	l.noteMet(p)
	l.noteRelief(p)
	l.noteConditions(p.assessment)
	l.saveConditions(p.now)
	p.incomplete = slices.ContainsFunc(signals, func(s eviction.Signal) bool {
		o, asked := seen.signals[s]
		return asked && o.State == eviction.Unknown
	})
	l.resume(ctx, p)
	if l.checkLimits(ctx, p) {
		return nil
	}
	if len(p.assessment.Actionable) > 0 {
		l.act(ctx, p)
	}
	return nil
}

// begin tells the source of summaries what plugins are about to be asked for.
func (l *Loop) begin(ctx context.Context, at eviction.PassView, layout bool) {
	if l.Begin != nil {
		l.Begin(ctx, at, layout)
	}
}

// finish shows what came of p and plans the next pass.
func (l *Loop) finish(p *pass) {
	l.finished++
	l.publish(p)
	ended := time.Now()
	l.schedule.Ended(ended, l.Settings.MonitoringInterval, wake.Result{
		Scope: p.scope, Met: len(p.assessment.Observed) > 0, Incomplete: p.incomplete,
		GraceLeft: policy.UntilGraceEnds(p.assessment, p.now), LookAt: []time.Time{l.blindLook(ended), l.victims.Relief.LookAt()},
	})
	l.Metrics.Passed(p.trigger(), ended.Sub(p.started))
	l.Log.Debug("pass", "pass", p.at.Pass, "trigger", p.trigger(), "cause", p.scope.Causes(), "tookSeconds", ended.Sub(p.started).Seconds())
}

func (p *pass) trigger() string {
	if p.waits {
		return "request"
	}
	return p.scope.Trigger()
}

// signals lists the signals of thresholds that k looks at, each once, in their
// order.
func (l *Loop) signals(k wake.Scope, thresholds []policy.Threshold) []eviction.Signal {
	var signals []eviction.Signal
	for _, t := range thresholds {
		_, woken := k.Woken[familyOf(t)]
		if (k.Full || woken) && !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	return signals
}
