package loop

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

type observer func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)

func (f observer) Observe(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return f(ctx, r)
}

type blindWaker struct{ wake func(eviction.Wake) }

func (b *blindWaker) Watch(ctx context.Context, _ eviction.WatchRequest, wake func(eviction.Wake)) error {
	b.wake = wake
	<-ctx.Done()
	return ctx.Err()
}

// Wakes of a family that cannot be observed kept all others from being looked at.
func TestWakesOfOneFamilyDoNotStarveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("big", 2*gi)
		n.providers[0].Plugin.Watcher = nil // as disk and pid
		b := &blindWaker{}
		n.providers = append(n.providers, &registry.Instance{Name: "nvme", Generation: 1, Plugin: &eviction.Plugin{
			Name: "nvme", Watcher: b,
			Observer: observer(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
				return eviction.ObserveReply{}, eviction.ErrRefused
			}),
			Signals: []eviction.SignalSpec{{Signal: spareSignal, Definition: definition(nvmePressure)}},
		}})
		s := settings(t, hard("1Gi"))
		own, err := policy.ParseThresholds(policy.ThresholdConfig{Hard: map[string]string{string(spareSignal): "100"}}, spareSignal)
		if err != nil {
			t.Fatal(err)
		}
		s.Thresholds = append(s.Thresholds, own...)
		n.run(s, rundir.State{})
		n.settle()
		n.set(gi / 2)
		for range 300 { // 5 minutes
			b.wake(eviction.Wake{Signal: spareSignal, Cause: "noise"})
			n.after(time.Second)
		}
		if n.count("kill big") != 1 {
			t.Errorf("memory observed %d times in 5 min, story %v", n.count(" observe"), n.story())
		}
	})
}

// What once was silent was never asked again if it was only a fallback observer.
func TestOneLateAnswerIsNotHeldAgainstAPluginForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("first", gi)
		n.addPod("second", gi)
		n.dies["uid-first"] = time.Second
		var well atomic.Bool
		custom := &registry.Instance{Name: "acme", Generation: 1, Plugin: &eviction.Plugin{
			Name: "acme",
			Observer: observer(func(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
				if !well.Load() {
					return eviction.ObserveReply{}, context.DeadlineExceeded
				}
				return n.Observe(ctx, r)
			}),
			Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
		}}
		n.rankers = append(n.rankers, custom)
		n.fallback = &byHand{node: n}
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		// The node thrashes: nobody answers in time, once.
		n.mu.Lock()
		n.available = 900 * mi
		n.observe = func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, context.DeadlineExceeded }
		n.measure = context.DeadlineExceeded
		n.mu.Unlock()
		n.wake()
		n.after(2 * time.Second)
		// All is well again.
		well.Store(true)
		n.mu.Lock()
		n.observe, n.measure = nil, nil
		n.available = 4 * gi
		n.mu.Unlock()
		n.after(10 * time.Minute)
		n.addPod("hog", 3*gi)
		n.set(gi / 2)
		n.wake()
		n.after(5 * time.Second)
		if n.count("kill hog") != 1 {
			t.Errorf("the largest pod was not chosen: %v", n.story())
		}
	})
}

// The layout was of whoever answered last.
func TestTheLayoutIsThatOfItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		layouts := func(name string, s eviction.Signal, split bool, took time.Duration) *registry.Instance {
			return &registry.Instance{Name: name, Generation: 1, Plugin: &eviction.Plugin{
				Name: name, OwnsLayout: true,
				Observer: observer(func(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
					time.Sleep(took)
					out := eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFs: split}}
					for _, s := range r.Signals {
						out.Observations = append(out.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: 4 * gi, Capacity: 8 * gi, Time: time.Now()})
					}
					return out, nil
				}),
				Signals: []eviction.SignalSpec{{Signal: s}},
			}}
		}
		n.providers = append(n.providers, layouts("acme", eviction.NodeFsAvailable, true, time.Millisecond))
		n.providers = append(n.providers, layouts("disk", eviction.ImageFsAvailable, false, 2*time.Millisecond))
		n.run(settings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "1Gi", "imagefs.available": "2Gi"}}), rundir.State{})
		n.after(time.Second)
		if got := n.loop.Snapshot().Layout; got != "imagefs" {
			t.Errorf("layout %q, want that of acme, who is in charge", got)
		}
	})
}

// One late answer of who is in charge of the layout changed it.
func TestTheLayoutStaysWhenItsOwnerIsLateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		var late atomic.Bool
		layouts := func(name string, split bool, late *atomic.Bool) *registry.Instance {
			return &registry.Instance{Name: name, Generation: 1, Plugin: &eviction.Plugin{
				Name: name, OwnsLayout: true,
				Observer: observer(func(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
					if late.Load() {
						return eviction.ObserveReply{}, context.DeadlineExceeded
					}
					out := eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFs: split}}
					for _, s := range r.Signals {
						out.Observations = append(out.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: 4 * gi, Capacity: 8 * gi, Time: time.Now()})
					}
					return out, nil
				}),
				Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}},
			}}
		}
		n.providers = append(n.providers, layouts("acme", true, &late))
		n.providers = append(n.providers, layouts("disk", false, new(atomic.Bool)))
		n.run(settings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "1Gi"}}), rundir.State{})
		n.after(time.Second)
		late.Store(true)
		n.after(10 * time.Second)
		if got := n.loop.Snapshot().Layout; got != "imagefs" {
			t.Errorf("layout %q, want it to stay that of acme", got)
		}
	})
}

// A figure that does not change and has a time ahead of the clock was acted on in each
// pass.
func TestOneFigureFromTheFutureEvictsOnceAtMost(t *testing.T) {
	for name, checked := range map[string]bool{"as kubelet": false, "checked": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.sampleTimes = checked
				for _, p := range []string{"a", "b", "c", "d", "e"} {
					n.addPod(p, 2*gi)
				}
				sampled := time.Now().Add(time.Hour)
				n.observe = func() (eviction.ObserveReply, error) {
					return eviction.ObserveReply{Observations: []eviction.Observation{{
						Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: gi / 2, Capacity: 8 * gi, Time: sampled,
					}}}, nil
				}
				n.run(settings(t, hard("1Gi")), rundir.State{})
				n.after(time.Minute)
				if got := n.count("kill "); got > 1 {
					t.Errorf("%d pods killed for one and the same sample: %v", got, n.story())
				}
			})
		})
	}
}

// The fallback was asked for one signal, and its layout was taken as well.
func TestTheLayoutOfAFallbackDoesNotReplaceItsOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		layouts := func(name string, split, knows bool) *registry.Instance {
			return &registry.Instance{Name: name, Generation: 1, Plugin: &eviction.Plugin{
				Name: name, OwnsLayout: true,
				Observer: observer(func(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
					out := eviction.ObserveReply{Layout: &eviction.LayoutReport{ImageFs: split}}
					for _, s := range r.Signals {
						o := eviction.Observation{Signal: s, State: eviction.Observed, Available: 4 * gi, Capacity: 8 * gi, Time: time.Now()}
						if !knows && s == eviction.ImageFsAvailable {
							o = eviction.Observation{Signal: s, Err: "not now"}
						}
						out.Observations = append(out.Observations, o)
					}
					return out, nil
				}),
				Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable}, {Signal: eviction.ImageFsAvailable}},
			}}
		}
		n.providers = append(n.providers, layouts("acme", true, false))
		n.providers = append(n.providers, layouts("disk", false, true))
		n.run(settings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "1Gi", "imagefs.available": "2Gi"}}), rundir.State{})
		n.after(time.Second)
		if got := n.loop.Snapshot().Layout; got != "imagefs" {
			t.Errorf("layout %q, want that of acme, who answered", got)
		}
	})
}

// What a wake of a custom signal listed was never used.
func TestWakesOfOwnSignalsListNoPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("other", gi)
		v := n.newVendor(1, nvmePressure, spareSignal)
		v.instance.Plugin.Reclaimer = nil
		v.instance.Plugin.Signals[0].ReclaimSteps = nil
		n.run(bothOf(t, hardSpare), rundir.State{})
		v.comes()
		n.settle()
		before := n.listings
		for range 1000 {
			v.wake(eviction.Wake{Signal: spareSignal, Cause: "noise"})
			n.after(10 * time.Millisecond)
		}
		if got := n.listings - before; got > 0 {
			t.Errorf("%d listings in 10 s of which nothing came", got)
		}
		before = n.listings
		v.crosses(spareSignal, 50)
		n.after(100 * time.Millisecond)
		if got := n.listings - before; got != 1 {
			t.Errorf("%d listings for one eviction", got)
		}
	})
}

// A kill that failed early was given up after half a minute, with most of the pod's grace
// still to come: whoever minds no SIGTERM lived on, and another pod went.
func TestAKillThatFailedIsNotGivenUpBeforeTheGraceIsOver(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.killErr = errBroken
		n.run(settings(t, soft("1Gi", "10s")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.after(30 * time.Second)
		if n.count("kill big grace 120") != 1 {
			t.Fatalf("%q, want big with 120 s", n.story())
		}
		n.after(100 * time.Second)
		if n.count("kill ") != 1 || len(n.journal) != 1 {
			t.Errorf("%q and %d kills in the journal, want big still waited for", n.story(), len(n.journal))
		}
	})
}
