package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/observe"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// byHand reads what the node has available, or fails.
type byHand struct {
	node *node
	err  string
}

func (b *byHand) Reads(s eviction.Signal) bool { return s == eviction.MemoryAvailable }

func (b *byHand) Observe(_ context.Context, signals []eviction.Signal) []eviction.Observation {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	b.node.note("by hand")
	o := eviction.Observation{Signal: signals[0], Err: b.err, Time: time.Now()}
	if b.err == "" {
		o.State, o.Available, o.Capacity = eviction.Observed, b.node.available, 8*gi
	}
	return []eviction.Observation{o}
}

// Measure implements observe.Fallback.
func (b *byHand) Measure(_ context.Context, s eviction.Signal, pods []eviction.Pod) []eviction.Measurement {
	b.node.mu.Lock()
	defer b.node.mu.Unlock()
	var out []eviction.Measurement
	for _, p := range pods {
		out = append(out, eviction.Measurement{
			UID: p.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(b.node.usage[p.UID]),
			Usage: []eviction.SignalUsage{{Signal: s, Value: b.node.usage[p.UID]}},
		})
	}
	return out
}

func (n *node) signal() observe.SignalStatus {
	for _, s := range n.loop.Snapshot().Signals {
		if s.Signal == eviction.MemoryAvailable {
			return s
		}
	}
	return observe.SignalStatus{}
}

func (n *node) unobserved() bool {
	return slices.ContainsFunc(n.loop.Snapshot().Thresholds, func(t decision.Threshold) bool { return t.Unobserved })
}

func (n *node) fail(observe func() (eviction.ObserveReply, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.observe = observe
}

func failing() (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, eviction.ErrUnavailable
}

func TestWhenTheLastObserverFailsForASecondTheHostReadsByItself(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*node)
		config policy.ThresholdConfig
		stands bool
		evicts bool
	}{
		"it cannot be reached":   {func(n *node) { n.fail(failing) }, hard("1Gi"), false, true},
		"it answers nothing":     {func(n *node) { n.fail(func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, nil }) }, hard("1Gi"), false, true},
		"it refuses":             {func(n *node) { n.fail(refusing) }, hard("1Gi"), false, true},
		"its source says no":     {func(n *node) { n.fail(refusing) }, hard("1Gi"), true, false},
		"it is down":             {func(n *node) { n.leave(errors.New("plugin memory does not run (quarantined)")) }, hard("1Gi"), false, true},
		"it was removed":         {func(n *node) { n.leave(nil) }, hard("1Gi"), false, false},
		"only a soft threshold":  {func(n *node) { n.fail(failing) }, soft("1Gi", "1s"), false, false},
		"it is down for a while": {func(n *node) { n.leave(errBroken) }, hard("1Gi"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				n.fallback, n.stands = &byHand{node: n}, c.stands
				n.addPod("big", 2*gi)
				n.addPod("small", gi)
				n.run(settings(t, c.config), rundir.State{})
				n.settle()
				if got := n.signal(); got.ObservedBy != "memory" || n.unobserved() {
					t.Errorf("before: %+v, want it observed by memory", got)
				}
				n.set(gi / 2)
				c.breaks(n)
				n.wake()
				synctest.Wait()
				n.changes()
				if got := n.signal(); got.State != decision.StateUnknown || got.Err == "" || got.ObservedBy != "" || !n.unobserved() && len(n.loop.Snapshot().Thresholds) > 0 {
					t.Errorf("after the first pass without it: %+v, want it shown as not observed", got)
				}
				n.after(1100 * time.Millisecond)
				want := 0
				if c.evicts {
					want = 1
				}
				if got := n.count("1s kill big"); got != want {
					t.Errorf("%d kills of big after 1 s, want %d: %v", got, want, n.story())
				}
				if got := n.signal(); c.evicts && (got.State != decision.StateObserved || got.ObservedBy != "evictd" || n.unobserved()) {
					t.Errorf("%+v, want it observed by evictd", got)
				}
			})
		})
	}
}

// With nobody to measure them pods of one priority went in the order in which they
// came.
func TestTheHostMeasuresPodsThatNoPluginMeasures(t *testing.T) {
	for name, c := range map[string]struct {
		breaks   func(*node)
		fallback bool
		stands   bool
		victim   string
	}{
		"the plugin fails":                 {func(n *node) { n.measure = eviction.ErrUnavailable }, true, false, "big"},
		"it hangs, its source would stand": {func(n *node) { n.measure = eviction.ErrUnavailable }, true, true, "big"},
		"its source says no":               {func(n *node) { n.measure = eviction.ErrRefused }, true, true, "first"},
		"it is down":                       {func(n *node) { n.leave(errBroken) }, true, false, "big"},
		"nobody can":                       {func(n *node) { n.measure = eviction.ErrUnavailable }, false, false, "first"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t)
				if c.fallback {
					n.fallback, n.stands = &byHand{node: n}, c.stands
				}
				n.addPod("first", gi)
				n.addPod("big", 2*gi)
				n.set(gi / 2)
				c.breaks(n)
				n.run(settings(t, hard("1Gi")), rundir.State{})
				n.after(1100 * time.Millisecond)
				if n.count("kill "+c.victim) != 1 {
					t.Errorf("want %s killed: %v", c.victim, n.story())
				}
			})
		})
	}
}

func refusing() (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, eviction.ErrRefused
}

// leave takes the memory plugin's process away, to come back if there is a reason
// for its absence.
func (n *node) leave(why error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.providers = nil
	n.down = map[eviction.Signal]error{eviction.MemoryAvailable: why}
}

// changes tells the loop that the set of plugins has changed.
func (n *node) changes() {
	n.changed <- struct{}{}
	synctest.Wait()
}

func TestTheHostReadsUntilThePluginIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fallback = &byHand{node: n}
		n.fail(failing)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.after(25 * time.Second)
		if got := n.signal(); got.ObservedBy != "evictd" || got.Available != 4*gi {
			t.Errorf("%+v, want the host's figure", got)
		}
		// Nobody watches the signal either.
		if got := n.count("by hand"); got < 24 || got > 26 {
			t.Errorf("read by hand %d times in 25 s, want once a second", got)
		}
		n.fail(nil)
		n.changes()
		if got := n.signal(); got.ObservedBy != "memory" {
			t.Errorf("%+v, want the plugin's figure", got)
		}
	})
}

func TestWhatNeitherCanReadIsReportedWithBothReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fallback = &byHand{node: n, err: "no /proc"}
		n.fail(failing)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.after(3 * time.Second)
		got := n.signal()
		if got.State != decision.StateUnknown || !strings.Contains(got.Err, "no /proc") || !strings.Contains(got.Err, eviction.ErrUnavailable.Error()) || !n.unobserved() {
			t.Errorf("%+v, want it not observed, with both reasons", got)
		}
	})
}

// A wrong clock, or a lie, must neither be acted on for ever nor stop what is to be
// acted on.
func TestTimesThatCannotBe(t *testing.T) {
	at := func(n *node, d time.Duration) func() (eviction.ObserveReply, error) {
		return func() (eviction.ObserveReply, error) {
			return eviction.ObserveReply{Observations: []eviction.Observation{{
				Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: n.available, Capacity: 8 * gi, Time: time.Now().Add(d),
			}}}, nil
		}
	}
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.sampleTimes = true
		n.addPod("big", 2*gi)
		n.observe = at(n, 24*time.Hour)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.fail(nil) // the next figure is honest, and a day older
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		if n.count("kill big") != 1 {
			t.Errorf("a figure from the future has stopped the evictions: %v", n.story())
		}
		n.fail(at(n, -time.Hour))
		n.after(10 * time.Second)
		if got := n.signal(); got.State != decision.StateUnknown || !strings.Contains(got.Err, "1h0m0s old") {
			t.Errorf("%+v, want a figure of an hour ago to be unknown", got)
		}
	})
}
