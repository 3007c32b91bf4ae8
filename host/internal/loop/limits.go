package loop

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/host/internal/wake"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// limitPause is how long the next check of limits waits, in durations of the
	// last one: they take a twentieth of the time at most, however many files there
	// are to be looked at.
	limitPause = 19
	// mostLimitPause is how long it waits at most, and if no pod has a limit: a quiet
	// pass must not cost more for having pods. The kubelet's figures of volumes are
	// as old (volumeStatsAggPeriod).
	mostLimitPause = time.Minute
)

// limits checks pods against their own limits on local storage.
type limits struct {
	// checking: pods are being measured beside the loop. The next check is not
	// before next.
	checking bool
	next     time.Time

	mu sync.Mutex
	// has remembers, by API object, which active pods have such limits at all.
	// Most have none, and a pod that has changed is another object.
	has map[any]bool
}

// A storageUse is what local storage was measured to be used by those pods that
// have limits on it.
type storageUse struct {
	pods     []pods.Pod
	measured map[string]eviction.Measurement
	// unknown: the pods could not be listed.
	unknown bool
}

// pause is how long the next check waits after one that took so long.
func (u storageUse) pause(took, interval time.Duration) time.Duration {
	switch {
	case u.unknown:
		return min(limitPause*took, interval)
	case len(u.pods) == 0:
		return mostLimitPause
	default:
		return min(limitPause*took, mostLimitPause)
	}
}

// checkLimits has pods evicted that are over a limit of their own. It reports
// whether one was, which is a pass's whole action then; when the pass does not
// wait, pods are measured beside the loop and it never is, and passes are left out
// if that takes long.
func (l *Loop) checkLimits(ctx context.Context, p *pass) bool {
	if !l.Settings.LocalStorageLimits || !p.scope.Full || l.filesystems.layout == 0 || len(p.roster.Providers(eviction.NodeFsAvailable, eviction.CanMeasure)) == 0 {
		return false
	}
	if p.waits {
		snapshot, err := l.active(ctx, p)
		if err != nil {
			return false
		}
		use := l.measureStorage(ctx, p.roster, p.at, l.limited(snapshot))
		return l.enforceLimits(ctx, p, use)
	}
	if l.limits.checking || time.Now().Before(l.limits.next) {
		return false
	}
	l.limits.checking = true
	at := p.at
	l.beside(ctx, func() func() {
		roster := l.Pin()
		defer roster.Release()
		began := time.Now()
		use := l.storageUse(ctx, roster, at)
		took := time.Since(began)
		return func() {
			l.limits.checking = false
			if l.Settings.Pacing != PacingKubelet {
				l.limits.next = time.Now().Add(use.pause(took, l.Settings.MonitoringInterval))
			}
			if !l.Settings.LocalStorageLimits {
				return // a reload has switched them off
			}
			use.pods = slices.DeleteFunc(use.pods, func(p pods.Pod) bool { return l.victims.EndedSince(p.Row.UID, began) })
			later := l.newPass(wake.Scope{})
			defer later.end()
			l.enforceLimits(ctx, later, use)
		}
	})
	return false
}

// storageUse lists and measures pods.
func (l *Loop) storageUse(ctx context.Context, roster Roster, at eviction.PassView) storageUse {
	snapshot, err := l.listNow(ctx)
	if err != nil {
		if ctx.Err() == nil {
			l.Log.Error("pods are not known, their limits on local storage are not checked", "error", err)
		}
		return storageUse{unknown: true}
	}
	return l.measureStorage(ctx, roster, at, l.limited(snapshot))
}

func (l *Loop) measureStorage(ctx context.Context, roster Roster, at eviction.PassView, limited []pods.Pod) storageUse {
	if len(limited) == 0 {
		return storageUse{}
	}
	// Limits are no filesystem's: who measures by this very name is asked.
	measurers := roster.Serving(0, eviction.NodeFsAvailable, eviction.CanMeasure)
	return storageUse{pods: limited, measured: l.measure(ctx, measurers, at, eviction.NodeFsAvailable, eviction.DetailContainers, limited)}
}

// limited are the pods that have limits and may be evicted.
func (l *Loop) limited(s pods.Snapshot) []pods.Pod {
	l.limits.mu.Lock()
	defer l.limits.mu.Unlock()
	has := make(map[any]bool, len(s.Pods))
	var out []pods.Pod
	for _, p := range s.Pods {
		if !p.HasManifest {
			continue
		}
		limited, known := l.limits.has[p.API]
		if !known {
			limited = policy.HasLocalLimits(p.API)
		}
		has[p.API] = limited
		if limited {
			out = append(out, p)
		}
	}
	l.limits.has = has
	return out
}

// enforceLimits evicts every pod that is over a limit, in the order of the pod
// source, and reports whether there was one.
func (l *Loop) enforceLimits(ctx context.Context, p *pass, use storageUse) bool {
	before := len(p.did.evicted)
	for _, pod := range use.pods {
		if l.victims.IsEnding(pod.Row.UID) {
			continue
		}
		limit, over := policy.CheckLocalLimits(pod.API, use.measured[pod.Row.UID], l.filesystems.layout)
		if !over {
			continue
		}
		found := victim.New(pod, eviction.Signal(limit.Label), policy.LocalGraceSeconds, limit.Message, nil)
		found.Hard, found.DryRun = true, l.Settings.DryRun
		v := l.victims.Start(found)
		l.Log.Info("evicting pod", "pod", v.Name, "uid", v.UID, "signal", v.Signal,
			"graceSeconds", v.GraceSeconds, "message", v.Message, "dryRun", v.DryRun)
		l.kill(ctx, p, v)
	}
	return len(p.did.evicted) > before
}
