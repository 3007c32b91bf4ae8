package memory

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// In these tests kubepods is limited to limitMiB and the threshold is met when
// the working set passes crossMiB.
const (
	limitMiB = 320
	crossMiB = 96 // the hog itself has up to 25 with the race detector
)

// station is a watched cgroup with a hog in it.
type station struct {
	*testing.T
	hog    *hog
	plugin sdk.Plugin
	gauge  *nodefs.MemoryGauge

	mu    sync.Mutex
	wakes []time.Time
}

func newStation(t *testing.T) *station {
	t.Helper()
	root := needsVersion1(t, limitMiB)
	s := &station{T: t, gauge: root.hierarchy.CgroupMemory(root.name + "/kubepods")}
	s.hog = startHog(t, root)
	s.plugin = configured(t, eviction.NodeFacts{RootDir: "/", CgroupRoot: root.name, CgroupDriver: "cgroupfs"})
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(func() { cancel(); watching.Wait() })
	watching.Go(func() {
		req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{
			Signal:    eviction.AllocatableMemoryAvailable,
			Threshold: eviction.Threshold{Amount: (limitMiB - crossMiB) * mib},
		}}}
		err := s.plugin.Watcher.Watch(ctx, req, func(w eviction.Wake) {
			if w.Cause == eviction.CauseNear {
				return
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.wakes = append(s.wakes, time.Now())
		})
		if err != nil {
			t.Errorf("watch: %v", err)
		}
	})
	s.quiet()
	return s
}

func (s *station) under() bool {
	m, err := s.gauge.Read(&nodefs.Buffer{})
	if err != nil {
		s.Error(err)
	}
	return m.AvailableBytes < (limitMiB-crossMiB)*mib
}

// quiet waits until the figure has been above the threshold and the plugin
// silent for a while.
func (s *station) quiet() {
	s.Helper()
	since := time.Now()
	for deadline := since.Add(20 * time.Second); time.Since(since) < 300*time.Millisecond; <-time.After(5 * time.Millisecond) {
		s.mu.Lock()
		if len(s.wakes) > 0 || s.under() {
			since = time.Now()
		}
		s.wakes = nil
		s.mu.Unlock()
		if time.Now().After(deadline) {
			m, err := s.gauge.Read(&nodefs.Buffer{})
			s.Fatalf("memory stays under the threshold, or the plugin does not fall silent: %+v, %v; threshold %d MiB", m, err, limitMiB-crossMiB)
		}
	}
}

// crossing runs act and returns how long after the crossing the wake came. The
// crossing is the first sample under the threshold, taken each half millisecond.
func (s *station) crossing(act func()) time.Duration {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		act()
	}()
	defer func() { <-done }()
	ticker := time.NewTicker(500 * time.Microsecond)
	defer ticker.Stop()
	var crossed time.Time
	for deadline := time.Now().Add(20 * time.Second); crossed.IsZero(); <-ticker.C {
		if s.under() {
			crossed = time.Now()
		} else if time.Now().After(deadline) {
			s.Fatal("the threshold was never crossed")
		}
	}
	for ; ; <-ticker.C {
		s.mu.Lock()
		wakes := slices.Clone(s.wakes)
		s.mu.Unlock()
		for _, w := range wakes {
			if late := w.Sub(crossed); late > -20*time.Millisecond { // the sampler may come second
				return max(0, late)
			}
		}
		if time.Since(crossed) > 5*time.Second {
			s.Error("no wake within 5 s of the crossing")
			return 5 * time.Second
		}
	}
}

// judge prints the latencies and fails when one is longer than it may be even
// on a busy machine.
func (s *station) judge(what string, late []time.Duration) {
	slices.Sort(late)
	s.Logf("%s: %d crossings, crossed to wake p50 %v, max %v", what, len(late), late[len(late)/2], late[len(late)-1])
	if late[len(late)-1] > time.Second {
		s.Errorf("%s: a wake came after %v", what, late[len(late)-1])
	}
}

// crossings returns the number of crossings in one way.
func crossings(nightly int) int {
	if os.Getenv("EVICTD_NIGHTLY") != "" {
		return nightly
	}
	return 3
}

func TestNoCrossingIsMissed(t *testing.T) {
	s := newStation(t)
	for _, c := range []struct {
		name          string
		mibsPerSecond int
	}{
		{"128 MiB/s", 128},
		{"256 MiB/s", 256},
		{"1 GiB/s", 1024},
		{"at once", 0},
	} {
		var late []time.Duration
		for range crossings(14) {
			late = append(late, s.crossing(func() { s.hog.does("anon", 128, c.mibsPerSecond, "") }))
			s.hog.does("free", 0, 0, "")
			s.quiet()
		}
		s.judge(c.name, late)
	}
}

// The kernel knows a usage, and the page cache moves the usage at which the
// threshold is crossed. Each of these moves it between the setting of the level
// and the crossing.

func TestLevelTooHighSinceThePageCacheWent(t *testing.T) {
	s := newStation(t)
	file := filepath.Join(t.TempDir(), "cache")
	var late []time.Duration
	for range crossings(5) {
		s.hog.does("cache", 128, 0, file)
		s.quiet() // the level now lies 128 MiB higher than without the cache
		s.hog.does("drop", 0, 0, file)
		late = append(late, s.crossing(func() { s.hog.does("anon", 112, 0, "") }))
		s.hog.does("free", 0, 0, "")
		s.quiet()
	}
	s.judge("page cache dropped before the crossing", late)
}

func TestWakeJustBeforeTheCrossingIsNotTheLast(t *testing.T) {
	s := newStation(t)
	file := filepath.Join(t.TempDir(), "cache")
	var late []time.Duration
	for range crossings(5) {
		s.hog.does("anon", 60, 0, "")
		s.quiet()
		// The cache takes the usage over the level, so the kernel calls too early.
		// A cgroup that is read all the time may hide its children's new page cache
		// for up to two seconds (its counters are flushed late), hence no look at
		// once.
		s.hog.does("cache", 64, 0, file)
		s.quiet()
		late = append(late, s.crossing(func() { s.hog.does("anon", 48, 256, "") }))
		s.hog.does("free", 0, 0, "")
		s.hog.does("drop", 0, 0, file)
		s.quiet()
	}
	s.judge("kernel call before the crossing", late)
}

func TestCrossingWithoutAnyUseMore(t *testing.T) {
	s := newStation(t)
	file := filepath.Join(t.TempDir(), "cache")
	var late []time.Duration
	for range crossings(5) {
		s.hog.does("cache", 128, 0, file)
		s.quiet()
		// The usage stays as it is, so the kernel has no reason to call.
		late = append(late, s.crossing(func() { s.hog.does("lock", 128, 0, file) }))
		s.hog.does("unlock", 0, 0, "")
		s.hog.does("drop", 0, 0, file)
		s.quiet()
	}
	s.judge("page cache pinned", late)
}

func TestPodsThatVanishAreClosed(t *testing.T) {
	root := needsVersion1(t, 0)
	root.make("kubepods/burstable")
	dir := root.make("kubepods/burstable/pod" + podUID)
	other := root.make("kubepods/burstable/podother")
	p := new(plugin)
	if err := p.configure(t.Context(), eviction.NodeFacts{RootDir: "/", CgroupRoot: root.name, CgroupDriver: "cgroupfs"}, config{}); err != nil {
		t.Fatal(err)
	}
	as := sdk.Plugin{Measurer: p, Observer: p}
	pods := []eviction.Pod{{UID: podUID, QoSClass: eviction.Burstable}, {UID: "other", QoSClass: eviction.Burstable}}
	for _, m := range measure(t, as, eviction.DetailPod, pods...) {
		if m.State != eviction.Measured {
			t.Fatalf("measured %+v", m)
		}
	}
	root.remove(dir)
	if got := measure(t, as, eviction.DetailPod, pods[0])[0]; got.State != eviction.NoStats {
		t.Errorf("measured %+v of a pod that is gone, want no stats", got)
	}
	root.remove(other)
	observeBoth(t, as) // nobody measures it again, so the observations notice
	h, err := p.current.Hold()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Release()
	if n := h.Value.Pods.Kept(); n != 0 {
		t.Errorf("%d pods are still open", n)
	}
	if got := observeBoth(t, as)[1]; got.State != eviction.Absent {
		t.Errorf("allocatable memory without a limit is %+v, want absent", got)
	}
	root.remove(root.hierarchy.Path(root.name + "/kubepods/burstable"))
	root.remove(root.hierarchy.Path(root.name + "/kubepods"))
	if got := observeBoth(t, as)[1]; got.State != eviction.Absent {
		t.Errorf("allocatable memory without its cgroup is %+v, want absent", got)
	}
	root.limit(root.make("kubepods"), 10)
	if got := observeBoth(t, as)[1]; got.State != eviction.Observed || got.Capacity != 10*mib {
		t.Errorf("allocatable memory of the cgroup made again is %+v, want it observed", got)
	}
}
