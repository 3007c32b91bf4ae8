package loop

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// Pacing names what the next decision waits for.
type Pacing string

// The pacings.
const (
	// PacingOneVictim evicts no second pod until the effect of the first one's end is visible: see
	// policy.Ledger. Passes continue meanwhile.
	PacingOneVictim Pacing = "evictd"
	// PacingKubelet makes one pass at a time and waits for its kill, and then up to half a minute
	// until the pod is cleaned up. Wakes meanwhile are merged into the next pass. It does not wait
	// for the relief of the last victim.
	PacingKubelet Pacing = "kubelet"
)

// A pacer answers what a Pacing decides. It has no state; its methods run in the loop's goroutine.
type pacer interface {
	// mayPass reports whether a pass may begin while actions and kills of former passes go on.
	mayPass(l *Loop) bool
	// mayGo reports whether a pod may be evicted for t now. c is nil before pods are ranked.
	mayGo(ctx context.Context, l *Loop, p *pass, t policy.Threshold, c *choosing) bool
	// waits returns the thresholds of an assessment that may wait for the relief of a victim.
	waits(a *policy.Assessment) []policy.Threshold
	// evicted is called after the eviction of a pod for a condition, "" for its own limit.
	evicted(ctx context.Context, l *Loop, p *pass, v *victim.Victim, c eviction.Condition)
	// await returns how to wait for the end of a victim.
	await() victim.Await
	// limitPause returns the time from a check of limits to the next one.
	limitPause(c *limitCheck, interval time.Duration) time.Duration
}

// pacer returns the pacer of s.Pacing.
func (s *Settings) pacer() pacer {
	if s.Pacing == PacingKubelet {
		return kubelet{}
	}
	return oneVictim{}
}

// oneVictim implements PacingOneVictim.
type oneVictim struct{}

func (oneVictim) mayPass(*Loop) bool { return true }

// mayGo may shorten the grace period of a terminating victim for a hard t.
func (oneVictim) mayGo(ctx context.Context, l *Loop, p *pass, t policy.Threshold, c *choosing) bool {
	if c != nil {
		first, _ := c.choice.First()
		return l.victims.Relief.Chosen(t, l.observer.Last(t.Signal), first, c.choice.Total(p.pin, l.observer.Thresholds.Layout, t.Signal))
	}
	if l.victims.Pretending(func(s eviction.Signal) bool { return l.observer.Thresholds.Condition(s) == t.Definition().Condition }) {
		return false
	}
	o := l.observer.Last(t.Signal)
	v := l.victims.Relief.Judge(t, o)
	if of := (policy.Threshold{Signal: t.Relieves()}); len(v.Measure) > 0 && of.Definition().Condition.CheapToMeasure() {
		measureAgain(ctx, l, p, of, v.Measure)
		v = l.victims.Relief.Judge(t, o)
	}
	if !v.Go {
		l.victims.Shorten(t, o)
	}
	return v.Go
}

func (oneVictim) waits(a *policy.Assessment) []policy.Threshold { return a.Met }

// evicted measures the pod's use of other resources, and observes the node again: relief counts from a sample after that.
func (oneVictim) evicted(ctx context.Context, l *Loop, p *pass, v *victim.Victim, c eviction.Condition) {
	read := []eviction.Condition{c}
	for _, t := range l.observer.Thresholds.InForce() {
		if of := t.Definition().Condition; of.CheapToMeasure() && !slices.Contains(read, of) {
			read = append(read, of)
			measureAgain(ctx, l, p, t, []string{v.UID})
		}
	}
	if c != "" {
		l.schedule.Wake(map[eviction.Condition]string{c: "eviction"})
	}
}

func (oneVictim) await() victim.Await { return victim.AwaitEvictd }

func (oneVictim) limitPause(c *limitCheck, interval time.Duration) time.Duration {
	switch {
	case c.err != nil:
		return min(limitPause*c.took, interval)
	case len(c.pods) == 0:
		return mostLimitPause
	default:
		return min(limitPause*c.took, mostLimitPause)
	}
}

// kubelet implements PacingKubelet.
type kubelet struct{}

// mayPass waits for the actions of the last pass and for the clean-up after it, as a kubelet does.
func (kubelet) mayPass(l *Loop) bool { return len(l.busy) == 0 && !l.victims.Busy() }

func (kubelet) mayGo(context.Context, *Loop, *pass, policy.Threshold, *choosing) bool { return true }

func (kubelet) waits(*policy.Assessment) []policy.Threshold { return nil }

func (kubelet) evicted(context.Context, *Loop, *pass, *victim.Victim, eviction.Condition) {}

func (kubelet) await() victim.Await { return victim.AwaitKubelet }

func (kubelet) limitPause(*limitCheck, time.Duration) time.Duration { return 0 }

// measureAgain measures terminating victims' use of t's resource now: the host itself, since a plugin may hang, else the plugin.
func measureAgain(ctx context.Context, l *Loop, p *pass, t policy.Threshold, uids []string) {
	at, layout, observed := l.moment(), l.observer.Thresholds.Layout, l.observer.Latest()
	for uid, v := range l.victims.Ending() {
		if !slices.Contains(uids, uid) {
			continue
		}
		use := l.chooser.ByHost(ctx, t.Signal, v.Pod)
		if !use.OK {
			measured := l.chooser.Measure(ctx, choose.Measuring{
				Measurers: p.pin.Serving(layout, t.Signal, eviction.CanMeasure), At: p.at, Signal: t.Signal, Detail: eviction.DetailPod, Bounds: choose.Bounds{Budget: p.budget},
			}, []pods.Pod{v.Pod})
			use = choose.Reliable(p.pin, layout, measured[uid], t.Signal)
		}
		l.victims.Relief.Measured(uid, t, policy.Relieved(t, l.observer.Thresholds.InForce(), layout, use), observed, at)
	}
}
