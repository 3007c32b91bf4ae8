package loop

import (
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A PassResult reports the observations, conclusions and actions of one pass to an embedding
// program or a replay. Its Decision has the zero Kind, because it may be about several pods or
// none. It is immutable.
type PassResult struct {
	decision.Decision

	// Conditions reported after the pass, by name.
	Conditions []eviction.Condition
	// ReclaimSufficed reports that reclaim satisfied every threshold and no pod was evicted.
	ReclaimSufficed bool
	// Evicted holds the victims of the pass, as they were when it ended.
	Evicted []victim.Victim
}

// A Conclusion holds the loop's state at the end of a pass, or of an action that one began. It is
// immutable.
type Conclusion struct {
	// Decision is nil if nothing was observed. Its time is that of its observations, on this
	// machine's clock. It marks the threshold acted on, for which it lists the pods, and has the
	// reason why none can be evicted.
	Decision *decision.Decision
	// Later: it concludes an action of an earlier pass, which made the observations.
	Later bool
	// ReclaimSufficed: no pod was evicted.
	ReclaimSufficed bool
	// Evicted holds the victims of this pass, Victims the latest of all, in their current state.
	Evicted, Victims []victim.Victim
	// Waiting says what thresholds wait for.
	Waiting []policy.Wait
}

// A view holds the observations and conclusions of a pass for the actions it begins: its decision
// so far, with the figures and thresholds that policy used. It is immutable.
type view struct {
	*decision.Decision

	observed   map[eviction.Signal]eviction.Observation
	actionable []policy.Threshold
}

// seenAs returns the view of p with the figures and thresholds in d.
func (p *pass) seenAs(d *decision.Decision) view {
	d.Pass, d.Trigger, d.Causes, d.Time = p.at.Pass, p.trigger(), p.scope.Causes(), p.observedAt
	d.Timeline.BeganMS = decision.MS(p.started, p.observedAt)
	return view{Decision: d, observed: p.seen.Observations, actionable: p.assessment.Actionable}
}

// newDecision returns a decision that names no pod yet, with the thresholds as assessed at now.
func newDecision(l *Loop, thresholds []policy.Threshold, observed map[eviction.Signal]eviction.Observation, a *policy.Assessment, now time.Time) *decision.Decision {
	d := &decision.Decision{
		Version: decision.Version, Config: l.settings.ID, DryRun: l.settings.DryRun, Pacing: string(l.settings.Pacing), RankVeto: string(l.settings.RankVeto),
		Now: now.Round(0), Thresholds: decision.Thresholds(thresholds, a, now), Observations: decision.Observations(observed),
	}
	if layout := l.observer.Thresholds.Layout; layout != 0 {
		d.Layout = layout.String()
	}
	return d
}

// decided returns the decision of p for the records: its own, or that of the earlier pass that
// began the action p concludes. It lists the pods if entered is set.
func (p *pass) decided(entered bool) *decision.Decision {
	if p.decision != nil {
		return p.decision
	}
	v := p.view
	switch {
	case p.acted != nil:
		v = p.acted.view
	case p.checked != nil:
		v = p.checked.view
	}
	if v.Decision == nil {
		return nil
	}
	d := *v.Decision
	if p.acted != nil {
		d.Act(p.acted.threshold)
		d.Reclaim, d.Reason = p.acted.reclaimed, p.nobody
		d.Inputs = choose.Inputs(p.choice.Snapshot.Stale)
		d.Timeline.MeasuringMS = float64(p.choice.Took) / float64(time.Millisecond)
		if entered {
			p.choice.Enter(&d, p.acted.threshold.Signal)
		}
	}
	if p.checked != nil && p.acted == nil {
		d.Inputs = choose.Inputs(p.checked.stale)
	}
	p.decision = &d
	return &d
}
