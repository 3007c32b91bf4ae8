package memory

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/sdk/summary/summarytest"
	"github.com/evictd/evictd/shared/eviction"
)

const summaryOfNode = `{"node":{"memory":{"availableBytes":600,"workingSetBytes":400}},
	"pods":[{"podRef":{"uid":"a"},"memory":{"workingSetBytes":70},"containers":[{"name":"c","memory":{"workingSetBytes":60}}]}]}`

// Where the host serves a summary no figure is read from the machine.
func TestFromASummary(t *testing.T) {
	p := configured(t, eviction.NodeFacts{
		RootDir: "/nowhere",
		SummarySocket: summarytest.Serve(t, func(uint64, eviction.View) summarytest.Answer {
			return summarytest.Answer{Summary: summaryOfNode}
		}),
	})
	got := observeBoth(t, p)
	if len(got) != 2 || got[0].State != eviction.Observed || got[0].Available != 600 || got[0].Capacity != 1000 || got[1].State != eviction.Absent {
		t.Errorf("observations %+v, want 600 of 1000, and no cgroup of pods", got)
	}
	measured := measure(t, p, eviction.DetailContainers, eviction.Pod{UID: "a"}, eviction.Pod{UID: "gone"})
	want := []eviction.Measurement{
		{
			UID: "a", State: eviction.Measured, WorkingSetBytes: eviction.Some(70),
			Usage:      []eviction.SignalUsage{{Signal: both[0], Value: 70}, {Signal: both[1], Value: 70}},
			Containers: []eviction.ContainerMeasurement{{Name: "c", WorkingSetBytes: eviction.Some(60)}},
			Volumes:    []eviction.VolumeMeasurement{},
		},
		{UID: "gone", State: eviction.NoStats},
	}
	if diff := cmp.Diff(want, measured); diff != "" {
		t.Errorf("measurements (-want +got):\n%s", diff)
	}
}

// With a summary as the source the kernel's call was not received: three seconds went by
// until the next interval, in which memory ran out.
func TestWithASummaryTheMachineIsWatched(t *testing.T) {
	n := newFakeNode(t)
	synctest.Test(t, func(t *testing.T) {
		node := n.facts()
		node.SummarySocket = "/nowhere/summary"
		p := configured(t, node)
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, p, below(200))
		pass(10 * time.Second)
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v with plenty of memory", got)
		}
		n.use(801)
		pass(onePoll)
		if got := wakes(); len(got) != 1 || got[0].Signal != eviction.MemoryAvailable {
			t.Errorf("wakes within 100 ms of a crossing: %v, want one", got)
		}
		cancel()
		done.Wait()
	})
}

// Huge pages are in no cgroup, and used up unseen. What a summary says of them is what counts
// with one: a wake that it does not bear out would only cost.
func TestHugePagesThatTakeTheMemoryWakeUnlessTheSummaryDecides(t *testing.T) {
	for socket, want := range map[string]bool{"": true, "/nowhere/summary": false} {
		n := newFakeNode(t)
		writeTree(t, n.root, map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 102400 kB\n"})
		synctest.Test(t, func(t *testing.T) {
			node := n.facts()
			node.SummarySocket = socket
			ctx, cancel := context.WithCancel(t.Context())
			wakes, done := watch(ctx, t, configured(t, node), below(200))
			pass(onePoll)
			if got := wakes(); (len(got) > 0) != want {
				t.Errorf("summary %q: woke %v, want a wake: %v", socket, got, want)
			}
			cancel()
			done.Wait()
		})
	}
}

// A watch of a summary is silent where there is no machine to look at, and begins to
// look at one when that becomes the source.
func TestWatchFromASummaryToTheMachine(t *testing.T) {
	p := configured(t, eviction.NodeFacts{RootDir: "/nowhere", SummarySocket: "/nowhere/summary"})
	ctx, cancel := context.WithCancel(t.Context())
	woken, ended := make(chan eviction.Wake, 1), make(chan error, 1)
	req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Amount: 1 << 60}}}}
	go func() {
		ended <- p.Watcher.Watch(ctx, req, func(w eviction.Wake) {
			select {
			case woken <- w:
			default:
			}
		})
	}()
	select {
	case w := <-woken:
		t.Errorf("woken by %+v with nothing to look at", w)
	default:
	}
	if err := p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: facts(t, "node-v2")}); err != nil {
		t.Fatal(err)
	}
	<-woken
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("watch: %v", err)
	}
}
