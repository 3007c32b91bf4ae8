package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// pass observes what k asks for, assesses it and, if a threshold asks for it,
// has one pod killed.
func (l *Loop) pass(ctx context.Context, k look) {
	started := time.Now()
	l.passes++
	roster := l.Pin()
	defer roster.Release()

	var early *listing
	if k.crossing() && !l.busy() {
		early = l.list(ctx)
	}
	defer early.drop()
	signals := l.signals(k)
	observed := l.observe(ctx, roster, eviction.ViewBefore, signals)
	if ctx.Err() != nil {
		return
	}
	now := l.Now()
	var a policy.Assessment
	l.state, a = policy.Assess(l.state, policy.Input{
		Now:              now,
		Thresholds:       l.Settings.Thresholds,
		Observations:     observed,
		TransitionPeriod: l.Settings.TransitionPeriod,
	})
	l.note(k, signals, observed, a)

	incomplete := slices.ContainsFunc(signals, func(s eviction.Signal) bool {
		o, asked := observed[s]
		return asked && o.State == eviction.Unknown
	})
	l.saveConditions(now)
	if len(a.Actionable) > 0 {
		incomplete = !l.act(ctx, roster, a, observed, early) || incomplete
	}
	l.publish(observed, a)

	ended := time.Now()
	for f := range k.families {
		l.pacer(f).ran(ended, len(a.Observed) > 0)
	}
	if k.full || incomplete {
		l.plan(incomplete, policy.UntilGraceEnds(a, now))
	} else if wait := policy.UntilGraceEnds(a, now); wait > 0 && ended.Add(wait).Before(l.nextFull) {
		l.nextFull = ended.Add(wait)
	}
	l.Metrics.Passed(k.trigger(), ended.Sub(started))
	l.Log.Debug("pass", "pass", l.passes, "trigger", k.trigger(), "cause", k.causes(), "tookSeconds", ended.Sub(started).Seconds())
}

// signals lists the signals that k looks at, each once, in the order of the
// configuration.
func (l *Loop) signals(k look) []eviction.Signal {
	var signals []eviction.Signal
	for _, t := range l.Settings.Thresholds {
		_, woken := k.families[familyOf(t.Signal)]
		if (k.full || woken) && !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	return signals
}

// note logs and counts what is new in an assessment: thresholds that came to be
// met or ceased, conditions that changed, signals that lost their observer.
func (l *Loop) note(k look, signals []eviction.Signal, observed map[eviction.Signal]eviction.Observation, a policy.Assessment) {
	for _, s := range signals {
		o, ok := observed[s]
		if ok != !l.unobserved[s] {
			l.unobserved[s] = !ok
			if ok {
				l.Log.Info("signal is observed again", "signal", s)
			} else {
				l.Log.Warn("no running plugin observes the signal, its thresholds are not enforced", "signal", s)
			}
		}
		l.Metrics.Unobserved(s, !ok)
		if !ok || o.State != eviction.Observed {
			continue
		}
		l.Metrics.Observed(s, o.Available, o.Capacity)
		l.Log.Debug("signal observed", "signal", s, "available", o.Available, "capacity", o.Capacity, "components", o.Components)
	}
	l.noteMet(k, observed, a)
	l.noteConditions(a)
}

func (l *Loop) noteMet(k look, observed map[eviction.Signal]eviction.Observation, a policy.Assessment) {
	met := make(map[policy.Key]bool, len(a.Observed))
	for _, o := range a.Observed {
		t := o.Threshold
		met[t.Key()] = true
		if !l.met[t.Key()] {
			l.Log.Info("threshold met", "signal", t.Signal, "threshold", t.Value.String(), "available", observed[t.Signal].Available,
				"capacity", observed[t.Signal].Capacity, "hard", t.Hard(), "gracePeriod", t.GracePeriod.String(), "trigger", k.trigger(), "cause", k.causes())
		}
	}
	for _, t := range l.Settings.Thresholds {
		if l.met[t.Key()] && !met[t.Key()] {
			l.Log.Info("threshold satisfied", "signal", t.Signal, "threshold", t.Value.String(), "available", observed[t.Signal].Available)
		}
	}
	l.met = met
}

func (l *Loop) noteConditions(a policy.Assessment) {
	for _, c := range a.Conditions {
		l.Metrics.Condition(c, true)
	}
	for _, c := range a.Raised {
		l.noteCondition(c, true)
	}
	for _, c := range a.Cleared {
		l.Metrics.Condition(c, false)
		l.noteCondition(c, false)
	}
}

func (l *Loop) noteCondition(c eviction.Condition, status bool) {
	text := policy.ConditionText(c, status)
	l.Log.Info("condition changed", "condition", c, "status", status, "reason", text.Reason, "message", text.Message)
	l.nodeEvent("Normal", text.EventReason, "Node status is now: "+text.EventReason)
}
