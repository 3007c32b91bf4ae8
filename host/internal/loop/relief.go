package loop

import (
	"context"
	"slices"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// moment is now on the clocks of samples. An embedding program's clock has nothing
// to do with the machine's.
func (l *Loop) moment() policy.Moment {
	m := policy.Moment{Time: l.Now()}
	if l.CheckSampleTimes {
		m.BootNanos = l.BootNanos()
	}
	return m
}

// use is what a pod was measured to use of s, as far as one can rely on it: a
// vendor's figure may be a score that is good for an order only.
func (l *Loop) use(roster Roster, m eviction.Measurement, s eviction.Signal) eviction.Figure {
	measurers := roster.Serving(l.filesystems.layout, s, eviction.CanMeasure)
	i := slices.IndexFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.Signal == s })
	if m.State != eviction.Measured || i < 0 || len(measurers) == 0 || !measurers[0].Builtin() {
		return eviction.Figure{}
	}
	return eviction.Some(m.Usage[i].Value)
}

// noteRelief enters what p has observed, and works out which thresholds wait for the
// relief of a former victim.
func (l *Loop) noteRelief(p *pass) {
	for _, s := range p.asked {
		l.latest[s] = p.observed[s]
	}
	met := p.assessment.Met
	if l.Settings.Pacing == PacingKubelet {
		met = nil
	}
	l.victims.Relief.Observed(p.asked, p.observed, p.assessment.Observed, met, l.latest)
}

// mayTake reports whether a pod may go for t now. If none may while a victim of a
// soft threshold is ending, t shortens its grace.
func (l *Loop) mayTake(ctx context.Context, p *pass, t policy.Threshold) bool {
	if l.Settings.Pacing == PacingKubelet {
		return true
	}
	if l.victims.Pretending() {
		return false
	}
	o := l.latest[t.Signal]
	v := l.victims.Relief.Judge(t, o)
	if len(v.Measure) > 0 && familyOf(t).CheapToMeasure() {
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
	for _, v := range l.victims.Ending() {
		if slices.Contains(uids, v.UID) {
			ending = append(ending, v.Pod)
		}
	}
	at := l.moment()
	measurers := p.roster.Serving(l.filesystems.layout, t.Signal, eviction.CanMeasure)
	measured := l.measure(ctx, measurers, p.at, t.Signal, eviction.DetailPod, ending)
	for _, uid := range uids {
		l.victims.Relief.Measured(uid, t, l.filesystems.layout, l.use(p.roster, measured[uid], t.Signal), at)
	}
}

// resume judges the kills that a former host decided on, as far as they can be judged
// by what p has observed, and finishes those that still hold. It is tried again in the
// next pass if the pods are not known.
func (l *Loop) resume(ctx context.Context, p *pass) {
	if len(l.victims.Restored) == 0 {
		return
	}
	snapshot, err := l.active(ctx, p)
	if err != nil {
		l.Log.Warn("kills of a former evictd are not judged yet, the pods are not known", "kills", len(l.victims.Restored), "error", err)
		p.incomplete = true
		return
	}
	for _, v := range l.victims.Resume(snapshot, l.Settings.DryRun, l.shortOf) {
		if t, ok := l.thresholdOf(v.Signal); ok {
			l.victims.Relief.Expect(v, t, l.filesystems.layout, eviction.Figure{}, l.latest)
		}
		l.victims.Kill(v)
	}
}

// shortOf reports whether s is known now, and whether a threshold of it is met for its
// whole grace period.
func (l *Loop) shortOf(s eviction.Signal) (known, short bool) {
	t, configured := l.thresholdOf(s)
	if !configured {
		return true, false
	}
	return l.latest[t.Signal].State != eviction.Unknown, slices.ContainsFunc(l.filesystems.inForce, func(t policy.Threshold) bool {
		return t.Signal == s && l.standing[t.Key()]
	})
}

func (l *Loop) thresholdOf(s eviction.Signal) (policy.Threshold, bool) {
	i := slices.IndexFunc(l.filesystems.inForce, func(t policy.Threshold) bool { return t.Signal == s })
	if i < 0 {
		return policy.Threshold{}, false
	}
	return l.filesystems.inForce[i], true
}
