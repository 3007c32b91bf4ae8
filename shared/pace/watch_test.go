package pace

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A node has the figures of signals of a capacity of 1e12, and counts the looks at it.
type node struct {
	sync.Mutex

	available map[eviction.Signal]int64
	looks     map[eviction.Signal]int
	wakes     []string
}

// watched runs a story with a watch of some signals of 1e9 a second, each with a threshold of 1e11.
func watched(t *testing.T, signals []eviction.Signal, story func(*node)) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{available: map[eviction.Signal]int64{}, looks: map[eviction.Signal]int{}}
		var req eviction.WatchRequest
		for _, s := range signals {
			n.available[s] = 5e11
			req.Thresholds = append(req.Thresholds, eviction.WatchThreshold{Signal: s, Threshold: eviction.Threshold{Amount: 1e11}})
		}
		rate := func(s eviction.Signal) float64 {
			if s == eviction.MemoryAvailable {
				return 0
			}
			return 1e9
		}
		look := func(signals []eviction.Signal) (all []eviction.Observation) {
			n.Lock()
			defer n.Unlock()
			for _, s := range signals {
				n.looks[s]++
				if n.available[s] >= 0 {
					all = append(all, eviction.Observation{Signal: s, State: eviction.Observed, Available: n.available[s], Capacity: 1e12})
				}
			}
			return all
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go Watch(ctx, req, rate, look, func(w eviction.Wake) {
			n.Lock()
			defer n.Unlock()
			if w.Cause != eviction.CauseNear {
				n.wakes = append(n.wakes, fmt.Sprint(w.Signal, " ", w.Cause))
			}
		})
		n.Lock()
		defer n.Unlock()
		story(n)
	})
}

// after returns the wakes in the next d.
func (n *node) after(d time.Duration) []string {
	n.Unlock()
	time.Sleep(d)
	synctest.Wait()
	n.Lock()
	wakes := n.wakes
	n.wakes = nil
	return wakes
}

func TestAFallAtTheFastestRateIsSeenWithinMilliseconds(t *testing.T) {
	watched(t, []eviction.Signal{eviction.NodeFsAvailable, eviction.ImageFsAvailable}, func(n *node) {
		n.after(time.Minute)
		for n.available[eviction.NodeFsAvailable] >= 1e11 {
			if wakes := n.after(time.Millisecond); wakes != nil {
				t.Fatalf("woken by %v before the crossing", wakes)
			}
			n.available[eviction.NodeFsAvailable] -= 1e6
		}
		if got, want := n.after(tightInterval), []string{"nodefs.available poll"}; !slices.Equal(got, want) {
			t.Errorf("woken by %v within %v of the crossing, want %v", got, tightInterval, want)
		}
		if got := n.after(time.Minute); got != nil {
			t.Errorf("woken again by %v, want once", got)
		}
		n.available[eviction.NodeFsAvailable] = 5e11
		n.after(underInterval)
		n.available[eviction.NodeFsAvailable] = 0
		if got := n.after(longest); !slices.Equal(got, []string{"nodefs.available poll"}) {
			t.Errorf("woken by %v at the next crossing, want once", got)
		}
	})
}

func TestFarFromAThresholdLooksAreRare(t *testing.T) {
	watched(t, []eviction.Signal{eviction.NodeFsAvailable, eviction.ImageFsAvailable}, func(n *node) {
		n.available[eviction.ImageFsAvailable] = 1e11 + 1e6
		n.after(time.Minute)
		far, near := n.looks[eviction.NodeFsAvailable], n.looks[eviction.ImageFsAvailable]
		if far > 7 || near < 1000 {
			t.Errorf("in a minute %d looks at a signal far from its threshold and %d at one close to it, want 7 at most and over 1000", far, near)
		}
	})
}

func TestASignalWithoutAFigureMeetsNothing(t *testing.T) {
	watched(t, []eviction.Signal{eviction.PIDAvailable, eviction.MemoryAvailable}, func(n *node) {
		n.available[eviction.PIDAvailable] = -1
		n.available[eviction.MemoryAvailable] = 0
		if got := n.after(time.Minute); got != nil || n.looks[eviction.MemoryAvailable] > 0 {
			t.Errorf("woken by %v, %d looks at a signal without a rate, want none", got, n.looks[eviction.MemoryAvailable])
		}
		n.available[eviction.PIDAvailable] = 1
		if got := n.after(longest); len(got) != 1 {
			t.Errorf("woken by %v when the figure is there and meets the threshold, want once", got)
		}
	})
}

func TestAWatchOfNothingWaitsForItsEnd(t *testing.T) {
	watched(t, nil, func(n *node) {
		if got := n.after(time.Hour); got != nil || len(n.looks) > 0 {
			t.Errorf("woken by %v, looks %v, want none", got, n.looks)
		}
	})
}
