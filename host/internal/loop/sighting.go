package loop

import (
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/recorder"
	"github.com/evictd/evictd/shared/eviction"
)

// A sighting is what a pass has seen and concluded, for what it begins and for records. It
// is not changed any more.
type sighting struct {
	pass                       uint64
	trigger, causes            string
	began, observedAt, assumed time.Time
	thresholds                 []policy.Threshold
	observed                   map[eviction.Signal]eviction.Observation
	assessment                 policy.Assessment
}

func (p *pass) sighting() sighting {
	return sighting{
		pass: p.at.Pass, trigger: p.trigger(), causes: p.scope.Causes(), began: p.started, observedAt: p.observedAt, assumed: p.now,
		thresholds: p.seen.Thresholds, observed: p.seen.Observations, assessment: p.assessment,
	}
}

// told is what a pass leaves for records: what it found itself, or what the pass had found
// that has begun what it concludes.
func told(l *Loop, p *pass) recorder.Pass {
	by, out := p.sighting(), inForce(l)
	out.Choice, out.Nobody, out.ReclaimSufficed = p.choice, p.nobody, p.result.ReclaimSufficed
	out.Evicted, out.Promised, out.Victims = p.result.Evicted, p.promised, l.victims.History()
	switch {
	case p.acted != nil:
		by = p.acted.sighting
		out.Acted, out.Reclaim = &p.acted.threshold, p.acted.reclaimed
	case p.checked != nil:
		by = p.checked.sighting
	}
	out.Later = by.pass != p.at.Pass
	if p.concluded {
		out.Waiting = l.victims.Relief.Waiting()
	}
	out.Number, out.Trigger, out.Causes, out.Began, out.Observed, out.Now = by.pass, by.trigger, by.causes, by.began, by.observedAt, by.assumed
	out.Thresholds, out.Observations, out.Assessment = by.thresholds, by.observed, by.assessment
	return out
}

// inForce has what of a pass follows from the settings.
func inForce(l *Loop) recorder.Pass {
	out := recorder.Pass{Config: l.Settings.ID, Pacing: string(l.Settings.Pacing), RankVeto: string(l.Settings.RankVeto), DryRun: l.Settings.DryRun}
	if layout := l.observer.Thresholds.Layout; layout != 0 {
		out.Layout = layout.String()
	}
	return out
}
