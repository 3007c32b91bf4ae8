package memory

import (
	"context"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

// Causes of wakes.
const (
	causeKernel = "memcg"
	causePoll   = "poll"
)

// minGap is the minimum time between two looks, however often the kernel notifies.
const minGap = time.Millisecond

// watch watches the machine until ctx ends or the node is replaced. It does so even if another plugin
// is assigned to observe it.
func (n *node) watch(ctx context.Context, req eviction.WatchRequest, replaced <-chan struct{}, wake func(eviction.Wake)) {
	ctx, stop := context.WithCancel(ctx)
	var running hang.Group
	defer running.Wait()
	defer stop()
	wakes := make(chan eviction.Wake)
	for _, s := range [...]eviction.Signal{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable} {
		var thresholds []eviction.Threshold
		for _, t := range req.Thresholds {
			if t.Signal == s {
				thresholds = append(thresholds, t.Threshold)
			}
		}
		if len(thresholds) > 0 {
			running.Go(func() {
				defer stop() // in case of a panic
				n.watchSignal(ctx, s, thresholds, wakes)
			})
		}
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-replaced:
			return
		case w := <-wakes:
			wake(w) // from this goroutine only
		}
	}
}

// signs returns the signs of a shortage of a signal's memory: of its cgroup, and of those above.
func (n *node) signs(s eviction.Signal) (all []sign) {
	if s == eviction.MemoryAvailable { // only the "/" of a container has memory.events
		return []sign{{causePSI, n.hierarchy.FS.Path("/proc/pressure/memory"), stallTrigger}, {causeEvents, filepath.Join(n.hierarchy.Path("/"), "memory.events"), ""}}
	}
	cgroup, err := n.cgroup(s)
	if err != nil || n.hierarchy.Version != nodefs.V2 {
		return nil
	}
	for ; cgroup != "/"; cgroup = filepath.Dir(cgroup) {
		dir := n.hierarchy.Path(cgroup)
		all = append(all, sign{causePSI, filepath.Join(dir, "memory.pressure"), stallTrigger}, sign{causeEvents, filepath.Join(dir, "memory.events"), ""})
	}
	return all
}

// watchSignal looks at the signal's memory repeatedly. Each look reads fresh figures and sets the
// level for the kernel's next notification, so another one follows if a notification comes too
// early: the page cache moves the crossing, while the kernel knows only a usage.
func (n *node) watchSignal(ctx context.Context, s eviction.Signal, thresholds []eviction.Threshold, wakes chan<- eviction.Wake) {
	gauge := n.gauge(s)
	var a *alarm
	rings := make(chan string, 1)
	var running hang.Group
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if n.hierarchy.Version == nodefs.V1 {
		a = newAlarm(func(limitOf string) (string, error) {
			if limitOf != "" {
				return n.hierarchy.Path(limitOf), nil
			}
			cgroup, err := n.cgroup(s)
			return n.hierarchy.Path(cgroup), err
		}, rings, n.silent[s])
		running.Go(func() {
			defer stop() // in case of a panic
			a.run(ctx)
		})
	}
	running.Go(func() {
		defer stop()
		watchSigns(ctx, func() []sign { return n.signs(s) }, rings)
	})
	var b nodefs.Buffer
	p := newPace(thresholds, n.pollInterval)
	cause := causePoll
	for ctx.Err() == nil {
		v := lookOnce(p, gauge, a, &b)
		if v.wake {
			select {
			case wakes <- eviction.Wake{Signal: s, Cause: cause}:
			case <-ctx.Done():
			}
		}
		cause = waitForNext(ctx, v.again, rings)
	}
}

func lookOnce(p *pace, gauge *nodefs.MemoryGauge, a *alarm, b *nodefs.Buffer) verdict {
	sample, err := gauge.Read(b)
	now := time.Now()
	var v verdict
	if err == nil {
		v = p.look(now, sample, a != nil && a.ready())
	} else {
		v = p.lost()
	}
	if a != nil {
		a.follow(now, sample.LimitOf, v.level, sample.UsageBytes)
	}
	return v
}

// waitForNext waits until it is time to look again and returns the cause.
func waitForNext(ctx context.Context, again time.Duration, rings <-chan string) (cause string) {
	looked := time.Now()
	timer := time.NewTimer(max(again, minGap))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return causePoll
	case <-timer.C:
		return causePoll
	case cause = <-rings:
	}
	timer.Reset(minGap - time.Since(looked))
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return cause
}
