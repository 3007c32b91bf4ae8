package loop

import (
	"context"
	"maps"
	"slices"
	"time"

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

// promise enters in the ledger what the victim of t is expected to free.
func (l *Loop) promise(f *flight, t policy.Threshold, use eviction.Figure, observed map[eviction.Signal]eviction.Observation) {
	if f.record.DryRun {
		return
	}
	p := policy.Promise{
		UID: f.kill.Pod.Row.UID, Pod: f.kill.Pod.String(), Grace: time.Duration(f.kill.GraceSeconds) * time.Second,
		Frees: policy.Relieved(t, l.filesystems.layout, use),
	}
	l.ledger = l.ledger.Promised(p, t, observed, l.moment())
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

// noteRelief enters in the ledger what p has observed, and works out which thresholds
// wait for the relief of a former victim.
func (l *Loop) noteRelief(p *pass) {
	before := maps.Clone(l.waiting)
	for _, s := range p.asked {
		l.latest[s] = p.observed[s]
		delete(l.waiting, s)
	}
	l.ledger = l.ledger.Observed(p.observed, p.assessment.Observed, l.moment())
	if l.Settings.Pacing == PacingKubelet {
		return
	}
	for _, t := range p.assessment.Met {
		if o := l.latest[t.Signal]; o.State == eviction.Observed {
			l.judge(t, o)
		}
	}
	for s, w := range l.waiting {
		if before[s].For != w.For {
			l.Log.Debug("next victim waits", "signal", s, "for", w.For, "victims", w.Victims, "until", w.Until)
		}
	}
}

// judge asks the ledger about t, and shows what t waits for.
func (l *Loop) judge(t policy.Threshold, o eviction.Observation) policy.Verdict {
	v := l.ledger.Judge(t, o, l.moment())
	if v.Go {
		delete(l.waiting, t.Signal)
		return v
	}
	l.waiting[t.Signal] = v.Wait
	return v
}

// mayTake reports whether a pod may go for t now. If none may while a victim of a
// soft threshold is ending, t shortens its grace.
func (l *Loop) mayTake(ctx context.Context, p *pass, t policy.Threshold) bool {
	if l.Settings.Pacing == PacingKubelet {
		return true
	}
	if l.pretending() {
		return false
	}
	o := l.latest[t.Signal]
	v := l.judge(t, o)
	if len(v.Measure) > 0 && cheapToMeasure(familyOf(t)) {
		l.measureAgain(ctx, p, t, v.Measure)
		v = l.judge(t, o)
	}
	if !v.Go {
		l.shorten(t)
	}
	return v.Go
}

// pretending reports whether a victim of a dry run holds up the next one, as it would
// if it were ending. It frees nothing, so nothing is expected of it.
func (l *Loop) pretending() bool {
	for _, f := range l.flights {
		if f.kill.Pressure && f.record.DryRun {
			return true
		}
	}
	return false
}

// measureAgain reads what victims of t that are still ending use now.
func (l *Loop) measureAgain(ctx context.Context, p *pass, t policy.Threshold, uids []string) {
	var ending []pods.Pod
	for _, uid := range uids {
		if f, ok := l.flights[uid]; ok {
			ending = append(ending, f.kill.Pod)
		}
	}
	at := l.moment()
	measurers := p.roster.Serving(l.filesystems.layout, t.Signal, eviction.CanMeasure)
	measured := l.measure(ctx, measurers, p.at, t.Signal, eviction.DetailPod, ending)
	for _, uid := range uids {
		l.ledger = l.ledger.Measured(uid, policy.Relieved(t, l.filesystems.layout, l.use(p.roster, measured[uid], t.Signal)), at)
	}
}

// reliefLook is when to look again for the relief that is waited for; zero if there
// is none.
func (l *Loop) reliefLook() time.Time {
	var soonest time.Time
	for _, w := range l.waiting {
		if !w.LookAt.IsZero() && (soonest.IsZero() || w.LookAt.Before(soonest)) {
			soonest = w.LookAt
		}
	}
	return soonest
}
