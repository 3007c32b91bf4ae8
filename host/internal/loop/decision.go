package loop

import (
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A PassResult reports the observations, conclusions and actions of one pass, for an embedding
// program or a replay that asked for it. Its decision is of the kind of the zero value: it may
// be about several pods, or none. It is not changed after it was returned.
type PassResult struct {
	decision.Decision

	// Conditions reported after the pass, by name.
	Conditions []eviction.Condition
	// ReclaimSufficed: every threshold was satisfied after reclaim, no pod had to go.
	ReclaimSufficed bool
	// Evicted holds the victims that the pass decided on, as they were when it ended.
	Evicted []victim.Victim
}

// A view holds the observations and conclusions of a pass, for the actions it begins: its
// decision so far, with figures and thresholds as policy has them. It is not changed any more.
type view struct {
	*decision.Decision

	observed   map[eviction.Signal]eviction.Observation
	actionable []policy.Threshold
}

// seenAs returns what p has seen, of which d has figures and thresholds.
func (p *pass) seenAs(d *decision.Decision) view {
	d.Pass, d.Trigger, d.Causes, d.Time = p.at.Pass, p.trigger(), p.scope.Causes(), p.observedAt
	d.Timeline.BeganMS = decision.MS(p.started, p.observedAt)
	return view{Decision: d, observed: p.seen.Observations, actionable: p.assessment.Actionable}
}

// newDecision returns a decision about no pod yet, by thresholds as they stand at now.
func newDecision(l *Loop, thresholds []policy.Threshold, observed map[eviction.Signal]eviction.Observation, a *policy.Assessment, now time.Time) *decision.Decision {
	d := &decision.Decision{
		Version: decision.Version, Config: l.Settings.ID, DryRun: l.Settings.DryRun, Pacing: string(l.Settings.Pacing), RankVeto: string(l.Settings.RankVeto),
		Now: now.Round(0), Thresholds: decision.Thresholds(thresholds, a, now), Observations: decision.Observations(observed),
	}
	if layout := l.observer.Thresholds.Layout; layout != 0 {
		d.Layout = layout.String()
	}
	return d
}

// decided returns what p leaves for records: what it found itself, or what the pass had found that
// has begun what p concludes. Pods are entered if anybody is to see them.
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
		d.Timeline.MeasuringMS = float64(p.choice.Took) / float64(time.Millisecond)
		if entered {
			p.choice.Enter(&d, p.acted.threshold.Signal)
		}
	}
	p.decision = &d
	return &d
}
