package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// resume judges the kills that a former host decided on, as far as they can be judged
// by what p has observed, and finishes those that still hold. It is tried again in the
// next pass if the pods are not known.
func (l *Loop) resume(ctx context.Context, p *pass) {
	if len(l.intents) == 0 {
		return
	}
	snapshot, err := l.active(ctx, p)
	if err != nil {
		l.Log.Warn("kills of a former evictd are not judged yet, the pods are not known", "kills", len(l.intents), "error", err)
		p.incomplete = true
		return
	}
	l.intents = slices.DeleteFunc(l.intents, func(j rundir.Kill) bool { return l.resumed(j, snapshot) }) //nolint:contextcheck // a kill outlives ctx, see killCtx
}

// resumed reports whether it is decided what becomes of j.
func (l *Loop) resumed(j rundir.Kill, s pods.Snapshot) bool {
	i := policy.Intent{Overdue: time.Since(j.GraceEnds), DryRun: l.Settings.DryRun}
	i.Looked, i.Short = l.shortOf(j.Signal)
	pod := pods.Pod{Row: eviction.Pod{UID: j.UID, Namespace: j.Namespace, Name: j.Name}, SandboxIDs: j.SandboxIDs, ContainerIDs: j.ContainerIDs}
	if at := slices.IndexFunc(s.Pods, func(p pods.Pod) bool { return p.Row.UID == j.UID }); at >= 0 {
		pod = s.Pods[at]
		i.There, i.Pod = true, pod.API
	}
	verdict, reason := policy.JudgeIntent(i)
	attrs := []any{"pod", pod.String(), "uid", j.UID, "signal", j.Signal, "decidedAt", j.DecidedAt}
	switch verdict {
	case policy.PostponeKill:
		return false
	case policy.DropKill:
		l.Log.Warn("kill that a former evictd decided on is dropped", append(attrs, "reason", reason)...)
		l.forgetKill(j.UID)
		return true
	case policy.FinishKill:
		l.Log.Warn("finishing a kill that a former evictd decided on", append(attrs, "graceSeconds", j.GraceSeconds)...)
	}
	f := &flight{
		kill: Kill{
			Pod: pod, Signal: j.Signal, GraceSeconds: j.GraceSeconds, GraceOverrideSeconds: j.GraceSeconds, Message: j.Message, Pressure: true,
		},
		record:   &Eviction{Time: time.Now(), Pod: pod.String(), UID: j.UID, Signal: j.Signal, GraceSeconds: j.GraceSeconds, Message: j.Message, Resumed: true, State: StateKilling},
		released: verdict == policy.AwaitLeavings,
	}
	if t, ok := l.thresholdOf(j.Signal); ok {
		l.promise(f, t, eviction.Figure{}, l.latest)
	}
	l.launch(l.inFlight(f))
	return true
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
