package memory

import (
	"context"
	"os"
	"time"

	"github.com/evictd/evictd/plugins/internal/memcg"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
)

// causeKernel is the cause of a wake for a notification of the memory cgroup.
const causeKernel = "memcg"

const (
	// fillRate is the fastest rate at which memory is expected to fill, in bytes per second.
	//
	// It applies with a level set too. On a node full of page cache the kernel drops as much
	// cache as is allocated: the usage does not change, the available memory falls at the
	// full rate, and no level is ever crossed.
	fillRate = 4e9
	// armedInterval is the maximum time between looks with a level set, or as far from a threshold.
	armedInterval = time.Second
	// farRate is eight times fillRate, in bytes per nanosecond: far from all thresholds the poll is slower
	// by default, but not so slow that memory reserved for huge pages could cross one long before.
	farRate = 32
)

// watch watches the machine until ctx ends. It does so even if another plugin is assigned to observe it.
func (n *node) watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) {
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
		case w := <-wakes:
			wake(w) // from this goroutine only
		}
	}
}

// watchSignal looks at the signal's memory repeatedly. Each look reads fresh figures and sets the
// level for the kernel's next notification, so another one follows if a notification comes too
// early: the page cache moves the crossing, while the kernel knows only a usage.
func (n *node) watchSignal(ctx context.Context, s eviction.Signal, thresholds []eviction.Threshold, wakes chan<- eviction.Wake) {
	gauge := n.Gauge(s)
	var a *alarm
	rings := make(chan string, 1)
	var running hang.Group
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if n.Hierarchy.Version == nodefs.V1 {
		a = newAlarm(func(limitOf string) (string, error) {
			if limitOf != "" {
				return n.Hierarchy.Path(limitOf), nil
			}
			cgroup, err := n.Cgroup(s)
			return n.Hierarchy.Path(cgroup), err
		}, rings, n.silent[s])
		running.Go(func() {
			defer stop() // in case of a panic
			a.run(ctx)
		})
	}
	running.Go(func() {
		defer stop()
		memcg.WatchSigns(ctx, func() []memcg.Sign { return n.Signs(s) }, rings)
	})
	var b nodefs.Buffer
	w := watcher{Pace: pace.Pace{Thresholds: thresholds, PerSecond: fillRate, Repeat: true}, interval: n.pollInterval, farRate: n.farRate, alarm: a}
	cause := pace.CausePoll
	for ctx.Err() == nil {
		v := w.look(gauge, &b)
		v.Report(s, cause, func(w eviction.Wake) {
			select {
			case wakes <- w:
			case <-ctx.Done():
			}
		})
		cause = memcg.WaitForNext(ctx, v.Again, rings, cause)
	}
}

// A watcher looks at one signal.
type watcher struct {
	pace.Pace

	// interval is the maximum time between looks while the kernel does not notify, unless the bytes left to
	// a threshold divided by farRate are more nanoseconds.
	interval time.Duration
	farRate  int64
	alarm    *alarm // nil if the kernel notifies of no level
}

// look reads the memory once and sets the alarm's level.
func (w *watcher) look(gauge *nodefs.MemoryGauge, b *nodefs.Buffer) pace.Verdict {
	s, err := gauge.Read(b)
	now := time.Now()
	if err != nil {
		s.Limited = false
	}
	v, level := w.see(now, s)
	if w.alarm != nil {
		w.alarm.follow(now, s.LimitOf, level, s.UsageBytes)
	}
	return v
}

// see processes a sample. It returns the usage, in bytes, at which the next threshold is crossed if the
// page cache stays as it is; 0 when there is no threshold left to cross.
func (w *watcher) see(now time.Time, s nodefs.MemorySample) (v pace.Verdict, level int64) {
	if !s.Limited {
		return w.Lost(w.interval), 0
	}
	if v = w.Look(now, s.AvailableBytes, s.CapacityBytes, armedInterval); v.Left >= 0 {
		level = pageAbove(s.UsageBytes + v.Left)
	}
	if w.alarm == nil || !w.alarm.ready() {
		v.Again = min(v.Again, max(w.interval, time.Duration(v.Left/w.farRate)))
	}
	return v, level
}

var pageSize = int64(os.Getpagesize())

// pageAbove returns the least multiple of the page size above v. The usage counts whole pages and
// a threshold is met only beyond it, so the kernel must notify there.
func pageAbove(v int64) int64 { return (v/pageSize + 1) * pageSize }
