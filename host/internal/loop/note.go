package loop

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// noteObserved logs and counts what signals read, and which of them lost their
// observer.
func (l *Loop) noteObserved(signals []eviction.Signal, observed map[eviction.Signal]eviction.Observation) {
	for _, s := range signals {
		o, ok := observed[s]
		l.noteUnobserved(s, o, ok)
		if !ok || o.State != eviction.Observed {
			continue
		}
		l.Metrics.Observed(s, o.Available, o.Capacity)
		l.Log.Debug("signal observed", "signal", s, "available", o.Available, "capacity", o.Capacity, "components", o.Components)
	}
}

// nobody is why a signal is not observed that no plugin is there for.
const nobody = "no running plugin observes it"

// noteUnobserved tells of a signal whose thresholds cannot be enforced: nobody
// observes it, or whoever should could not.
func (l *Loop) noteUnobserved(s eviction.Signal, o eviction.Observation, ok bool) {
	why := ""
	switch {
	case !ok:
		why = nobody
	case o.State == eviction.Unknown:
		why = cmp.Or(o.Err, "the plugin does not say why")
	}
	before := l.unobserved[s]
	l.unobserved[s] = why
	l.Metrics.Unobserved(s, why != "")
	switch {
	case why == "" && before != "":
		l.Log.Info("signal is observed again", "signal", s, "by", l.observers[s])
	case why != "" && before == "":
		l.Log.Warn("signal is not observed, its thresholds are not enforced", "signal", s, "reason", why)
	}
}

// noteMet logs thresholds that came to be met, or ceased to be.
func (l *Loop) noteMet(p *pass) {
	met := make(map[policy.Key]bool, len(p.assessment.Observed))
	for _, o := range p.assessment.Observed {
		t := o.Threshold
		met[t.Key()] = true
		if !l.met[t.Key()] {
			l.Log.Info("threshold met", "signal", t.Signal, "threshold", t.Value.String(), "available", p.observed[t.Signal].Available,
				"capacity", p.observed[t.Signal].Capacity, "hard", t.Hard(), "gracePeriod", t.GracePeriod.String(), "trigger", p.trigger(), "cause", p.scope.Causes())
		}
	}
	for _, t := range p.thresholds {
		if l.met[t.Key()] && !met[t.Key()] {
			l.Log.Info("threshold satisfied", "signal", t.Signal, "threshold", t.Value.String(), "available", p.observed[t.Signal].Available)
		}
	}
	l.met = met
	// What is frozen as met, or in its grace period again, is no reason to evict.
	for _, t := range p.thresholds {
		if slices.Contains(p.asked, t.Signal) {
			l.standing[t.Key()] = p.observed[t.Signal].State == eviction.Observed &&
				slices.ContainsFunc(p.assessment.Met, func(u policy.Threshold) bool { return u.Key() == t.Key() })
		}
	}
}

// noteConditions logs and counts conditions that changed.
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
	if l.TellConditions {
		l.nodeEvent("Normal", text.EventReason, "Node status is now: "+text.EventReason)
	}
}
