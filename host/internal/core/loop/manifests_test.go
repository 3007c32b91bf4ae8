package loop

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
)

func TestBrokenManifestsAreReportedAtTheStart(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.podsErr = errors.New("the runtime does not answer")
		n.options.Manifests = func() []pods.Problem {
			return []pods.Problem{{File: "a.yaml", Err: errors.New("is empty, want a v1.Pod")}}
		}
		n.start(settings(t, hard("1Gi")))
		if got, want := n.loop.Snapshot().Problems, []string{"a.yaml: is empty, want a v1.Pod"}; !slices.Equal(got, want) {
			t.Errorf("status has %q, want %q", got, want)
		}
		if got := strings.Count(n.log.String(), "pod manifest has a problem"); got != 1 || n.runtime.listings > 0 {
			t.Errorf("logged %d times after %d listings of pods, want once and none", got, n.runtime.listings)
		}
	})
}

// What came or broke after the start was read when a pod had to go, and not before:
// with the directory away at that moment a pod of an hour ago was unknown, and
// another one went in its place.
func TestManifestsAreReadBeforeAPodHasToGo(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		var readings atomic.Int32
		var broken atomic.Bool
		n.options.Manifests = func() []pods.Problem {
			if readings.Add(1); broken.Load() {
				return []pods.Problem{{File: "a.yaml", Err: errors.New("is empty")}}
			}
			return nil
		}
		s := settings(t, hard("1Gi"))
		n.start(s)
		broken.Store(true)
		if got := readings.Load(); got != 1 {
			t.Errorf("%d readings within an interval, want one", got)
		}
		n.after(s.MonitoringInterval)
		n.settle()
		if got := n.loop.Snapshot().Problems; len(got) != 1 || readings.Load() != 2 || n.runtime.listings > 0 {
			t.Errorf("after an interval, %d readings and %d listings of pods, status has %q; want what is new", readings.Load(), n.runtime.listings, got)
		}
	})
}

// The first look at the node does not wait for a slow disk with manifests.
func TestTheFirstPassDoesNotWaitForManifests(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		read := make(chan struct{})
		n.options.Manifests = func() []pods.Problem {
			<-read
			return []pods.Problem{{File: "a.yaml", Err: errors.New("is empty")}}
		}
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		n.settle()
		if n.runtime.running["uid-big"] {
			t.Error("big still runs, want it evicted")
		}
		close(read)
		n.settle()
		if got := n.loop.Snapshot().Problems; len(got) > 0 {
			t.Errorf("status has %q, want nothing: the listing for the eviction knew better", got)
		}
	})
}

// A directory that comes and goes is reported once each time, and a problem that stays
// is not reported again because of another.
func TestProblemsOfManifestsAreLoggedWhenTheyAreNew(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.start(settings(t, hard("1Gi")))
		away := pods.Problem{File: "/manifests", Err: errors.New("is away")}
		other := pods.Problem{File: "a.yaml", Err: errors.New("is empty")}
		for _, c := range []struct {
			problems   []pods.Problem
			away, gone int
		}{
			{[]pods.Problem{away}, 1, 0},
			{[]pods.Problem{away, other}, 1, 0},
			{[]pods.Problem{other}, 1, 0},
			{nil, 1, 1},
			{[]pods.Problem{away}, 2, 1},
		} {
			n.runtime.problems = c.problems
			n.memory.falls(gi / 2)
			n.after(11 * time.Second) // the pace of a kubelet: what goes brings nothing
			if got := len(n.loop.Snapshot().Problems); got != len(c.problems) {
				t.Errorf("status has %d problems, want %d", got, len(c.problems))
			}
			if got := strings.Count(n.log.String(), "/manifests: is away"); got != c.away {
				t.Errorf("%v: logged %d times, want %d", c.problems, got, c.away)
			}
			if got := strings.Count(n.log.String(), "no problem any more"); got != c.gone {
				t.Errorf("%v: the end logged %d times, want %d", c.problems, got, c.gone)
			}
		}
	})
}
