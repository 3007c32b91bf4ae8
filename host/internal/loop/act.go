package loop

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// listDeadline bounds the pod source's part of a pass.
	listDeadline = 5 * time.Second
	// detailDeadline bounds the look at the victim's containers, which only the
	// message needs.
	detailDeadline = 250 * time.Millisecond
	// rankingLogged is how many pods of a ranking the eviction's log line shows.
	rankingLogged = 10
)

// act does what the most urgent actionable threshold asks for. If that is of an own
// signal, the next one has its turn as well: one vendor's signal that is low for
// good must not keep the steps of another from running. There still is one victim.
func (l *Loop) act(ctx context.Context, p *pass) {
	for l.actOnce(ctx, p) && ctx.Err() == nil {
	}
}

// actOnce reports whether there may be something else to do. Thresholds of a
// family that something is done for beside the loop have got their action, and
// those that a former victim's relief is waited for.
func (l *Loop) actOnce(ctx context.Context, p *pass) bool {
	t, ok := policy.Choose(slices.DeleteFunc(slices.Clone(p.assessment.Actionable), func(t policy.Threshold) bool {
		return l.occupied[familyOf(t)] || !l.mayTake(ctx, p, t)
	}))
	if !ok {
		return false
	}
	p.did.chosen = &t
	reason, message := policy.NodeEvent(t)
	l.nodeEvent("Warning", reason, message)
	if c := l.newCleaning(p, t); c != nil {
		if !l.Settings.DryRun {
			l.reclaim(ctx, p, c)
			return l.goesOn(t)
		}
		l.Log.Info("dry run, nothing is reclaimed before the eviction", "signal", t.Signal)
	}
	l.take(ctx, p, t, p.observed, p.assessment.Actionable)
	return l.goesOn(t)
}

// goesOn reports whether what t asks for is done beside the loop and leaves others
// their turn.
func (l *Loop) goesOn(t policy.Threshold) bool {
	return t.Own != nil && l.occupied[familyOf(t)] && l.Settings.Pacing != PacingKubelet
}

// take ranks the pods for t and has the first one evicted. observed is what was
// seen before any reclaim, of which actionable could be acted on. What is not cheap to
// measure is measured beside the loop unless p waits; the family has got its action
// meanwhile, and memory does not wait for it.
func (l *Loop) take(ctx context.Context, p *pass, t policy.Threshold, observed map[eviction.Signal]eviction.Observation, actionable []policy.Threshold) {
	f := familyOf(t)
	c := chooser{Loop: l, roster: p.roster, layout: l.filesystems.layout, at: p.at, threshold: t, observation: observed[t.Signal], dying: l.victims.IsEnding, veto: l.Settings.RankVeto}
	if p.waits || f.CheapToMeasure() {
		l.settleOn(ctx, p, t, observed, actionable, c.choose(ctx, func() (pods.Snapshot, error) { return l.active(ctx, p) }))
		return
	}
	ending := l.victims.Ending()
	c.dying = func(uid string) bool { return ending[uid] != nil }
	l.occupied[f] = true
	began := time.Now()
	l.beside(ctx, func() func() {
		c.roster = l.Pin()
		defer c.roster.Release()
		chosen := c.choose(ctx, func() (pods.Snapshot, error) { return l.listNow(ctx) })
		return func() {
			delete(l.occupied, f)
			later := l.newPass(wake.Scope{})
			defer later.end()
			switch {
			case !l.inForce(t) || !l.standing[t.Key()]: // time has gone by
				l.Log.Info("threshold no longer met, no pod has to go", "signal", t.Signal, "threshold", t.Value.String())
			case !l.mayTake(ctx, later, t): // for another threshold's victim
			default:
				chosen.ranking.order = slices.DeleteFunc(chosen.ranking.order, func(r eviction.Ranked) bool { return l.victims.EndedSince(r.UID, began) })
				l.settleOn(ctx, later, t, observed, actionable, chosen)
				if later.incomplete {
					l.schedule.Ended(time.Now(), l.Settings.MonitoringInterval, wake.Result{Incomplete: true})
				}
			}
		}
	})
}

// settleOn has the first of the chosen pods evicted. If it cannot, the pass is
// incomplete.
func (l *Loop) settleOn(ctx context.Context, p *pass, t policy.Threshold, observed map[eviction.Signal]eviction.Observation, actionable []policy.Threshold, c choice) {
	if ctx.Err() != nil {
		return
	}
	if c.err != nil {
		l.Log.Error("pods are not known, nothing is evicted", "signal", t.Signal, "error", c.err)
		p.incomplete = true
		return
	}
	l.notePods(c.snapshot)
	l.victims.Listed(c.snapshot)
	if c.tooSoon {
		l.Log.Info("no pod is chosen before its plugin has started, which would be by priority alone", "signal", t.Signal, "candidates", len(c.candidates))
		p.incomplete = true
		return
	}
	c.ranking.order = slices.DeleteFunc(c.ranking.order, func(r eviction.Ranked) bool { return l.victims.IsEnding(r.UID) })
	o := observed[t.Signal]
	p.did.ranking, p.did.candidates = c.ranking, c.candidates
	l.statsAge(actionable, observed)
	if len(c.ranking.order) == 0 {
		l.Log.Warn("no pod can be evicted", "signal", t.Signal, "threshold", t.Value.String(), "available", o.Available,
			"active", len(c.snapshot.Pods), "candidates", len(c.candidates), "ranker", c.ranking.by)
		l.schedule.Hold(familyOf(t), time.Now())
		return
	}
	l.evict(ctx, p, t, observed, c)
}

// nodeEvent sends an event about the node. A dry run sends none.
func (l *Loop) nodeEvent(eventType, reason, message string) {
	if !l.Settings.DryRun {
		l.Recorder.NodeEvent(eventType, reason, message)
	}
}

// statsAge observes how old the figures of every actionable threshold are, as
// the kubelet does after ranking.
func (l *Loop) statsAge(actionable []policy.Threshold, observed map[eviction.Signal]eviction.Observation) {
	now := time.Now()
	for _, t := range actionable {
		if at := observed[t.Signal].Time; !at.IsZero() {
			l.Metrics.StatsAge(t.Signal, now.Sub(at))
		}
	}
}

// evict decides on the first pod of the ranking and has it killed.
func (l *Loop) evict(ctx context.Context, p *pass, t policy.Threshold, observed map[eviction.Signal]eviction.Observation, c choice) {
	candidates, r, o := c.candidates, c.ranking, observed[t.Signal]
	first := r.order[0]
	pod := podByUID(candidates, first.UID)
	measured := c.measured(first.UID)
	gates := policy.Gates{PodLevelResources: l.Settings.PodLevelResources}
	message, annotations := gates.Message(pod.API, t, o, measured)
	override := policy.GraceOverride(t, l.Settings.MaxPodGracePeriodSeconds, pod.API.Spec.TerminationGracePeriodSeconds)
	chosen := victim.New(pod, t.Signal, override, message, annotations)
	chosen.Pressure, chosen.Hard, chosen.DryRun, chosen.Ranker, chosen.RankReason = true, t.Hard(), l.Settings.DryRun, r.by, first.Reason
	v := l.victims.Start(chosen)
	l.victims.Relief.Expect(v, t, l.filesystems.layout, l.use(p.roster, measured, t.Signal), observed)
	l.Log.Info("evicting pod", "pod", v.Name, "uid", first.UID, "signal", t.Signal, "threshold", t.Value.String(),
		"available", o.Available, "capacity", o.Capacity, "hard", t.Hard(), "graceSeconds", v.GraceSeconds,
		"ranker", r.by, "rankReason", first.Reason, "candidates", len(candidates), "ranking", r.shown(candidates),
		"message", message, "dryRun", l.Settings.DryRun)
	l.kill(ctx, p, v)
}

// kill has a victim killed, in the background unless p waits.
func (l *Loop) kill(ctx context.Context, p *pass, v *victim.Victim) {
	if !v.DryRun {
		l.Metrics.Evicted(v.Signal)
	}
	if p.waits {
		l.victims.KillNow(ctx, v)
	} else {
		l.victims.Kill(v)
	}
	p.did.evicted = append(p.did.evicted, *v)
}

// shown is the head of the ranking for people.
func (r ranking) shown(candidates []pods.Pod) []string {
	out := make([]string, 0, rankingLogged)
	for _, p := range r.order[:min(len(r.order), rankingLogged)] {
		text := podByUID(candidates, p.UID).String()
		if p.Reason != "" {
			text = fmt.Sprintf("%s (%s)", text, p.Reason)
		}
		out = append(out, text)
	}
	return out
}

func podByUID(ps []pods.Pod, uid string) pods.Pod {
	for i := range ps {
		if ps[i].Row.UID == uid {
			return ps[i]
		}
	}
	return pods.Pod{}
}
