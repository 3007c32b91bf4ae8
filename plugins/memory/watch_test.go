package memory

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/plugins/internal/memcg"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/memorynode"
)

// onePoll is the default poll interval and a little more.
const onePoll = defaultPollInterval + time.Millisecond

// nearPoll is the longest time between looks near a threshold, and a little more.
const nearPoll = 26 * time.Millisecond

// pass lets time pass on the clock of a synctest bubble.
func pass(d time.Duration) { time.Sleep(d) }

// watch runs Watch in the background and counts its wakes.
func watch(ctx context.Context, t *testing.T, p sdk.Plugin, thresholds ...eviction.WatchThreshold) (wakes func() []eviction.Wake, done *sync.WaitGroup) {
	var mu sync.Mutex
	var got []eviction.Wake
	done = new(sync.WaitGroup)
	done.Go(func() {
		err := p.Watcher.Watch(ctx, eviction.WatchRequest{Thresholds: thresholds}, func(w eviction.Wake) {
			mu.Lock()
			defer mu.Unlock()
			if w.Cause != eviction.CauseNear {
				got = append(got, w)
			}
		})
		if err != nil {
			t.Errorf("watch ended with %v", err)
		}
	})
	return func() []eviction.Wake {
		mu.Lock()
		defer mu.Unlock()
		out := got
		got = nil
		return out
	}, done
}

func below(mibs int64) eviction.WatchThreshold {
	return eviction.WatchThreshold{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Amount: mibs * mib}}
}

func TestWatchPollsWhereTheKernelDoesNotCall(t *testing.T) {
	n := memorynode.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, n.Facts())
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, p, below(200))
		pass(10 * time.Second)
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v with plenty of memory", got)
		}
		n.Use(801)
		pass(onePoll)
		if got := wakes(); len(got) != 1 || got[0] != (eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "poll"}) {
			t.Errorf("wakes within 100 ms of a crossing: %v, want one from the poll", got)
		}
		pass(10 * time.Second)
		if got := len(wakes()); got < 15 || got > 25 {
			t.Errorf("%d wakes in 10 s under the threshold, want about 20", got)
		}
		n.Use(799)
		pass(time.Second)
		wakes()
		pass(10 * time.Second)
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v after it was over", got)
		}
		n.Use(801)
		pass(nearPoll)
		if got := wakes(); len(got) != 1 {
			t.Errorf("wakes within %v of a crossing from near: %v, want one", nearPoll, got)
		}
		cancel()
		done.Wait()
	})
}

func TestWatchGoesOnWithANewConfiguration(t *testing.T) {
	before, after := memorynode.New(t), memorynode.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, before.Facts())
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, p, below(200))
		synctest.Wait()
		if err := p.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: after.Facts()}); err != nil {
			t.Fatal(err)
		}
		before.Use(900)
		pass(time.Second)
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v for the former node", got)
		}
		after.Use(900)
		pass(onePoll)
		if got := wakes(); len(got) != 1 {
			t.Errorf("wakes for the new node: %v, want one", got)
		}
		cancel()
		done.Wait()
	})
}

func TestWatchOfCgroupsThatComeAndGo(t *testing.T) {
	n := memorynode.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, n.Facts())
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, p, eviction.WatchThreshold{Signal: eviction.AllocatableMemoryAvailable, Threshold: eviction.Threshold{Fraction: 0.5}})
		pass(time.Second)
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v without a cgroup of pods", got)
		}
		writeTree(t, filepath.Join(n.Root, "sys/fs/cgroup/kubepods"), map[string]string{
			"memory.current": "90\n", "memory.max": "100\n", "memory.stat": "inactive_file 10\n",
		})
		pass(onePoll)
		if got := wakes(); len(got) != 1 || got[0].Signal != eviction.AllocatableMemoryAvailable {
			t.Errorf("wakes once it is there: %v, want one", got)
		}
		cancel()
		done.Wait()
	})
}

func TestWatchOfNothingOfOursWaitsForItsEnd(t *testing.T) {
	n := memorynode.New(t)
	synctest.Test(t, func(t *testing.T) {
		p := configured(t, n.Facts())
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, p, eviction.WatchThreshold{Signal: eviction.PIDAvailable, Threshold: eviction.Threshold{Amount: 1}})
		pass(time.Hour)
		cancel()
		done.Wait()
		if got := wakes(); len(got) != 0 {
			t.Errorf("woke %v", got)
		}
	})
}

// A panic of what looks at the memory is that of the call, which does not go on without it.
func TestAWatchThatPanicsEnds(t *testing.T) {
	for _, version := range []nodefs.Version{nodefs.V1, nodefs.V2} {
		synctest.Test(t, func(t *testing.T) {
			n := &node{Node: &memcg.Node{}, pollInterval: defaultPollInterval} // without gauges
			n.Hierarchy.Version = version
			req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.MemoryAvailable, Threshold: eviction.Threshold{Amount: mib}}}}
			if p := hang.Catch(func() { n.watch(t.Context(), req, func(eviction.Wake) {}) }); p == nil || !strings.Contains(string(p.Stack), "watcher).look") {
				t.Errorf("version %v: ended with %v, want the panic of the look", version, p)
			}
		})
	}
}

// Huge pages are in no cgroup, and used up unseen.
func TestHugePagesThatTakeTheMemoryWake(t *testing.T) {
	n := memorynode.New(t)
	writeTree(t, n.Root, map[string]string{"proc/meminfo": "MemTotal: 1024000 kB\nMemAvailable: 102400 kB\n"})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wakes, done := watch(ctx, t, configured(t, n.Facts()), below(200))
		pass(onePoll)
		if got := wakes(); len(got) == 0 {
			t.Error("not woken")
		}
		cancel()
		done.Wait()
	})
}
