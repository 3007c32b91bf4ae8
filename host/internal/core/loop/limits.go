package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// limitPause is the pause before the next check of limits, in multiples of the last check's
	// duration: checks take at most a twentieth of the time, however many files there are.
	limitPause = 19
	// mostLimitPause bounds that pause, and is the pause if no pod has a limit, so that quiet
	// passes do not cost more with more pods. The kubelet's volume figures are as old
	// (volumeStatsAggPeriod).
	mostLimitPause = time.Minute
)

// limits schedules the checks of pods against their local storage limits.
type limits struct {
	// checking: a check runs in the background. The next one does not start before next.
	checking bool
	next     time.Time
}

// checkLimits evicts pods that exceed a local storage limit. It reports whether it evicted one,
// which then is the pass's only action. In a pass that is not synchronous it measures in the
// background, returns false, and skips checks while one takes long.
func checkLimits(ctx context.Context, l *Loop, p *pass) bool {
	if !l.settings.LocalStorageLimits || !p.scope.Full || l.observer.Thresholds.Layout == 0 || len(p.pin.Providers(eviction.NodeFsAvailable, eviction.CanMeasure)) == 0 {
		return false
	}
	c := &limitCheck{view: p.view, at: p.at, chooser: l.chooser, list: l.chooser.List}
	if p.synchronous {
		c.list = func(context.Context) (pods.Snapshot, error) { return p.list() }
	} else if l.limits.checking || time.Now().Before(l.limits.next) {
		return false
	}
	l.limits.checking = true
	l.do(ctx, p, c)
	return len(p.evicted) > 0
}

// limitCheck is the action that measures pods with local storage limits and evicts those that
// exceed one.
type limitCheck struct {
	view // of the pass that began it

	at      eviction.PassView
	chooser *choose.Chooser
	list    func(context.Context) (pods.Snapshot, error)

	began    time.Time
	took     time.Duration
	err      error // the pods could not be listed
	pods     []pods.Pod
	stale    []pods.Stale
	measured map[string]eviction.Measurement
	reliable bool // false for a vendor's figures
}

// condition returns none: a victim of its limits blocks other evictions only as far as it frees
// what they need.
func (*limitCheck) condition() eviction.Condition { return "" }

func (*limitCheck) quick() bool { return false }

func (c *limitCheck) run(ctx context.Context, pin *registry.Pin) {
	c.began = time.Now()
	defer func() { c.took = time.Since(c.began) }()
	listed, err := c.list(ctx)
	if err != nil {
		c.err = err
		return
	}
	listed = listed.Rechecked(ctx)
	c.stale = listed.Stale
	for i := range listed.Pods {
		if p := &listed.Pods[i]; p.HasManifest && policy.HasLocalLimits(p.API) {
			c.pods = append(c.pods, *p)
		}
	}
	if len(c.pods) > 0 {
		// Limits are not tied to a filesystem, so only measurers of this exact signal are asked.
		measurers := pin.Serving(0, eviction.NodeFsAvailable, eviction.CanMeasure)
		c.reliable = !slices.ContainsFunc(measurers, func(m registry.Provider) bool { return !m.Builtin() })
		c.measured = c.chooser.Measure(ctx, choose.Measuring{
			Measurers: measurers,
			At:        c.at, Signal: eviction.NodeFsAvailable, Detail: eviction.DetailContainers,
		}, c.pods)
	}
}

// conclude evicts every pod that exceeds a limit, in the order of the pod source.
func (c *limitCheck) conclude(ctx context.Context, l *Loop, p *pass) action {
	l.limits.checking = false
	if c.err != nil && ctx.Err() == nil {
		l.options.Log.Error("pods are not known, their limits on local storage are not checked", "error", c.err)
	}
	if !p.synchronous {
		l.limits.next = time.Now().Add(l.settings.pacer().limitPause(c, l.settings.MonitoringInterval))
	}
	if !l.settings.LocalStorageLimits {
		return nil // a reload has disabled them
	}
	later := p.at.Pass != c.at.Pass
	if later && !l.resume(p) {
		return nil
	}
	ending := l.victims.Ending()
	left := slices.DeleteFunc(c.pods, func(p pods.Pod) bool {
		return ending[p.Row.UID] != nil || later && l.victims.EndedSince(p.Row.UID, c.began)
	})
	for _, pod := range left {
		limit, over := policy.CheckLocalLimits(pod.API, c.measured[pod.Row.UID], l.observer.Thresholds.Layout, l.settings.LocalRules)
		if !over {
			continue
		}
		found := victim.New(pod, eviction.Signal(limit.Label), policy.LocalGraceSeconds, limit.Message, nil)
		found.Limit, found.Hard, found.DryRun = true, true, l.settings.DryRun
		v, layout, use := l.victims.Start(found), l.observer.Thresholds.Layout, eviction.Figure{}
		if layout == eviction.LayoutShared && c.reliable { // the pod stores everything on the kubelet's filesystem
			use = c.measured[v.UID].EphemeralStorageUsedBytes
		}
		l.victims.Relief.Expect(v, policy.LocalStorage, layout, use, l.observer.Latest())
		l.options.Log.Info("evicting pod", "pod", v.Key(), "uid", v.UID, "signal", v.Signal,
			"graceSeconds", v.GraceSeconds, "message", v.Message, "notNew", choose.Inputs(c.stale), "dryRun", v.DryRun, "record", v.Record)
		p.checked = c
		l.kill(ctx, p, v)
	}
	return nil
}
