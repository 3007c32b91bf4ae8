package loop

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/recorder"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// A gauge measures in a disk's place, and counts.
type gauge struct {
	*disk
	looks int
	// knows are the only pods that it has an answer for, nil for all; fails is what
	// it says after that.
	knows []string
	fails error
	// hangs: it never says what is in a pod.
	hangs bool
}

// addGauge gives the node a disk plugin with a gauge.
func (n *node) addGauge() *gauge {
	g := &gauge{disk: n.addDisk()}
	n.providers[len(n.providers)-1].Plugin.Measurer = g
	return g
}

// Measure implements eviction.Measurer.
func (g *gauge) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	if g.hangs && r.Detail == eviction.DetailContainers {
		<-ctx.Done()
		return ctx.Err()
	}
	g.mu.Lock()
	g.looks++
	knows, fails := g.knows, g.fails
	g.mu.Unlock()
	if knows != nil {
		r.Pods = slices.DeleteFunc(slices.Clone(r.Pods), func(p eviction.Pod) bool { return !slices.Contains(knows, p.UID) })
	}
	if err := g.disk.Measure(ctx, r, emit); err != nil {
		return err
	}
	return fails
}

func (g *gauge) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.looks
}

// Passes come each ten seconds. However long it takes to look, looking takes a
// twentieth of the time, and limits are looked at once in little more than a minute.
func TestLimitsCostNoMoreThanATwentiethOfTheTime(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		want  int // looks in ten minutes
	}{
		{0, 60},
		{500 * time.Millisecond, 60},
		{time.Second, 30},
		{5 * time.Second, 9}, // 66 s and the pass that follows
	} {
		t.Run(c.takes.String(), func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				g := n.addGauge()
				g.measures = c.takes
				n.limitVolume(g.disk, "small", 10*mi, mi)
				s := diskSettings(t, hardDisk("10Gi"))
				n.run(s, rundir.State{})
				n.after(10*time.Minute - time.Millisecond)
				if got := g.count(); got != c.want {
					t.Errorf("looked %d times in ten minutes, want %d", got, c.want)
				}
			})
		})
	}
}

// A quiet pass must cost the same with many pods as with few.
func TestPodsAreListedOnceAMinuteForLimitsThatNobodyHas(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(10*time.Minute - time.Millisecond)
		if n.listings != 10 || g.count() != 0 {
			t.Errorf("pods listed %d times in ten minutes and measured %d times, want 10 and 0", n.listings, g.count())
		}
		n.limitVolume(g.disk, "small", 10*mi, 11*mi)
		n.after(time.Minute)
		wantKills(t, n, "10m0s kill small grace 1")
	})
}

func TestLimitsAreCheckedInEachPassAsInTheKubelet(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.measures = 5 * time.Second
		n.limitVolume(g.disk, "small", 10*mi, mi)
		s := diskSettings(t, hardDisk("10Gi"))
		s.Pacing = PacingKubelet
		n.run(s, rundir.State{})
		n.after(10*time.Minute - time.Millisecond)
		if got := g.count(); got != 60 {
			t.Errorf("looked %d times in ten minutes, want 60", got)
		}
	})
}

func TestLimitsWaitForTheRuntimeToComeBack(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.knows, g.fails = []string{}, errors.New("runtime is down")
		n.limitVolume(g.disk, "small", 10*mi, 11*mi)
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(25 * time.Second)
		wantStory(t, n)
		g.mu.Lock()
		g.knows, g.fails = nil, nil
		g.mu.Unlock()
		n.after(10 * time.Second)
		wantStory(t, n, "30s journal small", "30s event Evicted small", "30s kill small grace 1", "30s gone small")
	})
}

// What could be measured counts although the call failed: a pod whose limit is on
// a volume needs no runtime.
func TestLimitsOfThePodsThatCouldBeMeasured(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.knows, g.fails = []string{"uid-small"}, errors.New("runtime is down")
		n.limitVolume(g.disk, "small", 10*mi, 11*mi)
		n.limitVolume(g.disk, "big", 10*mi, 11*mi)
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(5 * time.Second)
		wantStory(t, n, "0s journal small", "0s event Evicted small", "0s kill small grace 1", "0s gone small")
	})
}

// The runtime goes away between two passes: the last figures rank, so that the pod
// that takes the most is still the first to go.
func TestWithoutTheRuntimeTheLastFiguresRankForTheDisk(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.volumes["uid-big"] = 20 * gi // of small nothing is known that would have it go
		n.dies["uid-big"], n.stuck = time.Hour, true
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		g.set(5 * gi)
		n.after(10 * time.Second)
		g.mu.Lock()
		g.knows, g.fails = []string{}, errors.New("runtime is down")
		g.mu.Unlock()
		n.after(time.Minute) // big is given up after half of it
		wantKills(t, n, "8s kill big grace 1", "49s kill big grace 1")
	})
}

func wantKills(t *testing.T, n *node, want ...string) {
	t.Helper()
	got := slices.DeleteFunc(n.story(), func(s string) bool { return !strings.Contains(s, " kill ") })
	if !slices.Equal(got, want) {
		t.Errorf("kills %q, want %q", got, want)
	}
}

// The look at the victim's containers is for the message alone.
func TestAVictimThatCannotBeLookedIntoGoesAllTheSame(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.hangs = true
		g.volumes["uid-big"] = 10 * gi
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		g.set(5 * gi)
		n.after(8400 * time.Millisecond)
		wantKills(t, n, "8.25s kill big grace 1")
	})
}

// The check began before the node's pressure took the pod, which is its answer too.
func TestALimitDoesNotEvictAVictimAgain(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.measures = 4 * time.Second
		n.limitVolume(g.disk, "big", 10*mi, 11*mi)
		n.available = gi / 2
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(8 * time.Second)
		wantKills(t, n, "0s kill big grace 1")
	})
}

// A store has the last record that was kept.
type store struct{ last *decision.Decision }

func (s *store) Open() error                             { return nil }
func (s *store) Append(r *decision.Decision) error       { s.last = r; return nil }
func (s *store) AppendOutcome(o *decision.Outcome) error { return nil }
func (s *store) Prune() error                            { return nil }
func (s *store) Close() error                            { return nil }

// record has records kept. It returns what ends that and returns the last one.
func (n *node) record() func() *decision.Decision {
	var s store
	n.records = recorder.New(recorder.Options{Store: &s, Count: func(error) {}, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(n.t.Context())
	ran := make(chan struct{})
	go func() { defer close(ran); n.records.Run(ctx) }()
	return func() *decision.Decision {
		cancel()
		<-ran
		return s.last
	}
}

// What is measured in the background is recorded with the pass that had it measured, and
// not with one that has looked at nothing.
func TestALimitIsRecordedWithWhatMadeEvictdLook(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.measures = 4 * time.Second
		n.limitVolume(g.disk, "big", 10*mi, 11*mi)
		last := n.record()
		n.run(diskSettings(t, hardDisk("1Gi")), rundir.State{})
		n.after(8 * time.Second)
		if r := last(); r == nil || r.Kind != decision.KindLimit || r.Trigger == "wake" || r.Now.IsZero() || r.Timeline.ObservedMS > -4000 || r.Timeline.ObservedMS < -5000 {
			t.Errorf("%+v", r)
		}
	})
}

func TestLimitsThatAReloadSwitchedOffEvictNobody(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		g := n.addGauge()
		g.measures = 4 * time.Second
		n.limitVolume(g.disk, "small", 10*mi, 11*mi)
		s := diskSettings(t, hardDisk("10Gi"))
		n.run(s, rundir.State{})
		n.after(time.Second)
		s.LocalStorageLimits = false
		if err := n.loop.Apply(s); err != nil {
			t.Fatal(err)
		}
		n.after(8 * time.Second)
		wantKills(t, n)
	})
}

// The pod that filled the disk was over its own limit. It went for that, and the disk took
// another one before it had come back.
func TestTheDiskWaitsForAPodThatGoesForItsOwnLimit(t *testing.T) {
	for name, restarted := range map[string]bool{"of this host": false, "of a former host": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.late, n.dies["uid-big"] = time.Second, 500*time.Millisecond
				n.limitVolume(d, "big", 10*gi, gi)
				n.limitVolume(d, "small", 10*gi, gi)
				full := func() {
					n.mu.Lock()
					defer n.mu.Unlock()
					d.mu.Lock()
					defer d.mu.Unlock()
					d.volumes["uid-big"], d.available = 45*gi, 5*gi
				}
				var former rundir.State
				if restarted {
					full()
					former.Kills = []rundir.Kill{{
						UID: "uid-big", Namespace: "default", Name: "big", Signal: "emptydirfs.limit", Limit: true, GraceSeconds: 1,
						DecidedAt: time.Now(), GraceEnds: time.Now().Add(time.Second),
					}}
				}
				n.run(diskSettings(t, hardDisk("10Gi")), former)
				n.settle()
				full()
				n.after(40 * time.Second)
				if !n.running["uid-small"] || n.running["uid-big"] {
					t.Errorf("%q, want big alone", n.story())
				}
			})
		})
	}
}

// It does not keep memory waiting, which it may not relieve.
func TestMemoryDoesNotWaitForAPodThatGoesForItsOwnLimit(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.stuck, n.dies["uid-small"] = true, time.Minute
		n.limitVolume(d, "small", 10*mi, 11*mi)
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(100 * time.Millisecond)
		if got := n.kills(); len(got) != 1 || !strings.Contains(got[0], "0s kill big") {
			t.Errorf("%q, want big at once", got)
		}
	})
}
