package loop

import (
	"context"
	"iter"
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
	// duration: checks of all pods take at most a twentieth of the time, however many files there are,
	// and so do checks of pods that may have grown.
	limitPause = 19
	// mostLimitPause bounds that pause, and is the pause if no pod has a limit, so that quiet
	// passes do not cost more with more pods. The kubelet's volume figures are as old
	// (volumeStatsAggPeriod).
	mostLimitPause = time.Minute
	// newPodsAfter is the loss of the disks, in bytes, after which pods are checked that have started since
	// the last check.
	newPodsAfter = 16 << 20
)

// limits schedules the checks of pods against their local storage limits.
type limits struct {
	// checking: a check runs in the background. The next one of all pods does not start before next,
	// one of pods that may have grown not before again.
	checking    bool
	next, again time.Time
	// pause was the pause before next.
	pause time.Duration
	// known holds the last check of each pod with limits, observed what was available at the last check.
	known    map[string]limited
	observed map[eviction.Signal]eviction.Observation
}

// A limited pod was measured after the observations.
type limited struct {
	pods.Pod

	measured eviction.Measurement
	observed map[eviction.Signal]eviction.Observation
}

// grown returns which pods to check before it is time for all: those that would exceed a limit if they had
// taken all that the disks have lost since they were measured, and new and unknown ones; nil if there is no sign of any.
func (s *limits) grown(now map[eviction.Signal]eviction.Observation, layout eviction.Layout, rules policy.LocalRules) func(uid string) bool {
	grown := map[string]bool{}
	for uid, p := range s.known {
		if _, over := policy.CheckLocalLimits(p.API, grownBy(p.measured, lost(p.observed, now)), layout, rules); over {
			grown[uid] = true
		}
	}
	if len(grown) == 0 && lost(s.observed, now) < newPodsAfter {
		return nil
	}
	known := s.known
	return func(uid string) bool { p, was := known[uid]; return grown[uid] || !was || !p.complete() }
}

// lost returns by how many bytes less is available on one of the disks.
func lost(before, now map[eviction.Signal]eviction.Observation) (bytes int64) {
	for _, s := range []eviction.Signal{eviction.NodeFsAvailable, eviction.ImageFsAvailable, eviction.ContainerFsAvailable} {
		if before[s].State == eviction.Observed && now[s].State == eviction.Observed {
			bytes = max(bytes, before[s].Available-now[s].Available)
		}
	}
	return bytes
}

// grownBy returns m as it is if each part that it measures has grown by some bytes.
func grownBy(m eviction.Measurement, bytes int64) eviction.Measurement {
	m.Volumes, m.Containers = slices.Clone(m.Volumes), slices.Clone(m.Containers)
	m.EphemeralStorageUsedBytes.Value += bytes
	for i := range m.Volumes {
		m.Volumes[i].UsedBytes.Value += bytes
	}
	for i := range m.Containers {
		m.Containers[i].LogsUsedBytes.Value += bytes
	}
	return m
}

// checked records a check.
func (s *limits) checked(c *limitCheck) {
	if s.observed = c.observed; c.only == nil {
		s.known = map[string]limited{}
	}
	for _, p := range c.pods {
		s.known[p.Row.UID] = limited{p, c.measured[p.Row.UID], c.observed}
	}
}

// complete reports whether the figure of each volume in p is known.
func (p *limited) complete() bool {
	for i := range p.API.Spec.Volumes {
		name := p.API.Spec.Volumes[i].Name
		if p.API.Spec.Volumes[i].EmptyDir != nil && !slices.ContainsFunc(p.measured.Volumes, func(m eviction.VolumeMeasurement) bool { return m.Name == name && m.UsedBytes.OK }) {
			return false
		}
	}
	return p.measured.State == eviction.Measured
}

// used returns what pods with limits used of the kubelet's filesystem when last checked.
func (s *limits) used() iter.Seq2[*eviction.Pod, int64] {
	return func(yield func(*eviction.Pod, int64) bool) {
		for _, p := range s.known {
			if p.measured.State == eviction.Measured && !yield(&p.Row, p.measured.UsageFor(eviction.NodeFsAvailable)) {
				return
			}
		}
	}
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
	} else if now := time.Now(); l.limits.checking {
		return false
	} else if now.Before(l.limits.next) {
		if now.Before(l.limits.again) {
			return false
		}
		if c.only = l.limits.grown(c.observed, l.observer.Thresholds.Layout, l.settings.LocalRules); c.only == nil {
			return false
		}
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
	only    func(uid string) bool // nil means all pods

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
		if p := &listed.Pods[i]; p.HasManifest && policy.HasLocalLimits(p.API) && (c.only == nil || c.only(p.Row.UID)) {
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
		now := time.Now()
		if c.only == nil {
			l.limits.pause = l.settings.pacer().limitPause(c, l.settings.MonitoringInterval)
			l.limits.next = now.Add(l.limits.pause)
		} else {
			l.limits.again = now.Add(min(limitPause*c.took, mostLimitPause))
		}
	}
	if c.err == nil {
		l.limits.checked(c)
		l.options.PodUsage(eviction.NodeFsAvailable, true, l.limits.used(), time.Now().Add(2*(l.limits.pause+l.settings.MonitoringInterval)))
	}
	if !l.settings.LocalStorageLimits {
		return nil // a reload has disabled them
	}
	later := p.at.Pass != c.at.Pass
	if later && !l.resume(ctx, p) {
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
		found.Limit, found.Hard, found.DryRun, found.Why = true, true, l.settings.DryRun, limit.Why
		v, layout, use := l.victims.Start(found), l.observer.Thresholds.Layout, eviction.Figure{}
		if layout == eviction.LayoutShared && c.reliable { // the pod stores everything on the kubelet's filesystem
			use = c.measured[v.UID].EphemeralStorageUsedBytes
		}
		l.victims.Relief.Expect(v, policy.LocalStorage, policy.Relieved(policy.LocalStorage, l.observer.Thresholds.InForce(), layout, use), c.pods, l.observer.Latest())
		l.options.Log.Info("evicting pod", "pod", v.Key(), "uid", v.UID, "signal", v.Signal,
			"graceSeconds", v.GraceSeconds, "message", v.Message, "why", v.Why, "notNew", choose.Inputs(c.stale), "dryRun", v.DryRun, "record", v.Record)
		p.checked = c
		l.kill(ctx, p, v)
		if !v.DryRun {
			l.settings.pacer().evicted(ctx, l, p, v, "")
		}
	}
	return nil
}
