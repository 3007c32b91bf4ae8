package loop

import (
	"context"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/actuate"
	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
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

// act does what the most urgent actionable threshold asks for. active is the
// listing of the pods if it was begun already. It returns false when it could
// not act, and the pass should be repeated soon.
func (l *Loop) act(ctx context.Context, roster Roster, a policy.Assessment, observed map[eviction.Signal]eviction.Observation, active *listing) bool {
	t, ok := policy.Choose(a.Actionable)
	if !ok {
		return true
	}
	if l.busy() {
		l.shorten(t)
		return true
	}
	reason, message := policy.NodeEvent(t)
	l.nodeEvent("Warning", reason, message)

	if active == nil {
		active = l.list(ctx)
		defer active.drop()
	}
	snapshot, err := active.result()
	if err != nil {
		l.Log.Error("pods are not known, nothing is evicted", "signal", t.Signal, "error", err)
		return false
	}
	l.notePods(snapshot)
	candidates := l.candidates(snapshot)
	r := l.rank(ctx, roster, t, observed[t.Signal], candidates)
	if ctx.Err() != nil {
		return true
	}
	l.statsAge(a.Actionable, observed)
	if len(r.order) == 0 {
		l.Log.Warn("no pod can be evicted", "signal", t.Signal, "threshold", t.Value.String(), "available", observed[t.Signal].Available,
			"active", len(snapshot.Pods), "candidates", len(candidates), "ranker", r.by)
		l.pacer(familyOf(t.Signal)).hold(time.Now())
		return true
	}
	l.evict(ctx, roster, t, observed[t.Signal], candidates, r)
	return true
}

// nodeEvent sends an event about the node. A dry run sends none.
func (l *Loop) nodeEvent(eventType, reason, message string) {
	if !l.Settings.DryRun {
		l.Recorder.NodeEvent(eventType, reason, message)
	}
}

// busy reports whether a victim in flight forbids the next one.
func (l *Loop) busy() bool { return l.Settings.Pacing != PacingKubelet && len(l.flights) > 0 }

// candidates are the pods that may be evicted at all. Plugins see no others.
func (l *Loop) candidates(s pods.Snapshot) []pods.Pod {
	var out []pods.Pod
	for _, p := range s.Pods {
		_, dying := l.flights[p.Row.UID]
		if p.HasManifest && policy.Evictable(p.API) && (!dying || l.Settings.Pacing == PacingKubelet) {
			out = append(out, p)
		}
	}
	return out
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
func (l *Loop) evict(ctx context.Context, roster Roster, t policy.Threshold, o eviction.Observation, candidates []pods.Pod, r ranking) {
	first := r.order[0]
	victim := podByUID(candidates, first.UID)
	measured := l.measureVictim(ctx, roster, t.Signal, victim, r.measured[first.UID])
	message, annotations := policy.Message(victim.API, t, o, measured)
	own := victim.API.Spec.TerminationGracePeriodSeconds
	override := policy.GraceOverride(t, l.Settings.MaxPodGracePeriodSeconds, own)
	grace := actuate.Grace{Override: &override, Spec: own, Deletion: victim.API.DeletionGracePeriodSeconds}
	k := Kill{Pod: victim, Signal: t.Signal, GraceSeconds: grace.Effective(), Message: message, Annotations: annotations}
	f := l.board(k, t.Hard(), first.Reason, r.by)
	l.Log.Info("evicting pod", "pod", victim.String(), "uid", first.UID, "signal", t.Signal, "threshold", t.Value.String(),
		"available", o.Available, "capacity", o.Capacity, "hard", t.Hard(), "graceSeconds", k.GraceSeconds,
		"ranker", r.by, "rankReason", first.Reason, "candidates", len(candidates), "ranking", r.shown(candidates),
		"message", message, "dryRun", l.Settings.DryRun)
	if !l.Settings.DryRun {
		l.Metrics.Evicted(t.Signal)
	}
	l.dispatch(f) //nolint:contextcheck // a kill outlives ctx, see killCtx
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
