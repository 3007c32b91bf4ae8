package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A watchdog that a timer feeds sees a process, not whether it decides anything.
func TestALoopThatIsStuckIsNotAlive(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		turns := make(chan struct{}, 1000)
		n.options.Alive, n.options.AliveEvery = func() { turns <- struct{}{} }, 20*time.Second
		stuck, free := false, make(chan struct{})
		n.options.Conditions = func([]eviction.Condition) {
			if stuck {
				<-free
			}
		}
		s := settings(t, hard("1Gi"))
		s.MonitoringInterval = time.Hour
		n.start(s)
		within := func(d time.Duration) (count int) {
			for len(turns) > 0 {
				<-turns
			}
			n.after(d)
			return len(turns)
		}
		if got := within(10 * time.Minute); got < 30 || got > 31 {
			t.Errorf("%d turns in ten quiet minutes, want one each 20s though a pass is far away", got)
		}
		stuck = true
		n.memory.wake()
		n.after(time.Second)
		if got := within(10 * time.Minute); got != 0 {
			t.Errorf("%d turns of a loop that is stuck in a pass", got)
		}
		stuck = false
		close(free)
		if within(time.Minute) == 0 {
			t.Error("no turn after the pass went on")
		}
	})
}

func TestASoftThresholdEvictsWhenItsGraceEnds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.start(settings(t, soft("1Gi", "4s")))
		n.after(time.Second)
		n.memory.falls(gi / 2)
		n.after(3999 * time.Millisecond)
		n.wantKills()
		n.after(2 * time.Millisecond)
		n.wantKills("5s kill big grace 120")
	})
}

func TestAReloadKeepsTheTimersOfThresholdsThatStay(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.start(settings(t, soft("1Gi", "4s")))
		n.memory.falls(gi / 2)
		n.after(3 * time.Second)
		more := soft("1Gi", "4s")
		more.Hard = hard("100Mi").Hard
		n.apply(settings(t, more))
		n.after(time.Second)
		n.wantKills("4s kill big grace 120")
		if got := len(n.memory.watched[len(n.memory.watched)-1]); got != 2 {
			t.Errorf("%d thresholds are watched after the reload, want 2", got)
		}
	})
}

func TestTheEndGivesAKillInFlightItsTime(t *testing.T) {
	for name, c := range map[string]struct {
		config policy.ThresholdConfig
		dies   time.Duration
		left   int // in the journal
	}{
		"a short one":                   {hard("1Gi"), 1900 * time.Millisecond, 0},
		"a long one is the next host's": {soft("1Gi", "1s"), time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.runtime.dies["uid-big"] = c.dies
				n.start(settings(t, c.config))
				n.memory.falls(gi / 2)
				n.after(1100 * time.Millisecond)
				before := time.Now()
				n.stop()
				if took := time.Since(before); took > victim.EndOfKills || n.did.count("kill big") != 1 {
					t.Errorf("ending took %v, want at most %v: %q", took, victim.EndOfKills, n.did.story())
				}
				if n.did.count("gone big") != 1-c.left || len(n.journal.kills) != c.left {
					t.Errorf("%q, want %d kills in the journal: %v", n.did.story(), c.left, n.journal.kills)
				}
			})
		})
	}
}

// With the kubelet's pacing each wake evicted the dying pod again: 33 kills, journal
// entries and events of one pod in 0.7 s.
func TestTheKubeletsPacingWaitsForTheKillAndTheCleanUp(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*podRuntime)
		want []string
	}{
		"the pod ends": {func(r *podRuntime) { r.dies["uid-big"] = 700 * time.Millisecond }, []string{"0s kill big grace 1", "1.7s kill small grace 1"}},
		"its volumes stay for a while": {func(r *podRuntime) {
			r.volumes = map[string]bool{"uid-big": true}
			time.AfterFunc(4500*time.Millisecond, func() { r.mu.Lock(); defer r.mu.Unlock(); r.volumes = nil })
		}, []string{"0s kill big grace 1", "5s kill small grace 1"}},
		"the pod stays": {func(r *podRuntime) { r.killErr = errBroken }, []string{"0s kill big grace 1", "30s kill big grace 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				s := settings(t, hard("4Gi"))
				s.Pacing = PacingKubelet
				n.start(s)
				c.set(n.runtime)
				n.memory.set(gi)
				for range 3100 {
					n.memory.wake() // the kernel keeps waking
					n.after(10 * time.Millisecond)
				}
				n.wantKills(c.want...)
				if got := n.did.count("journal big"); got != n.did.count("kill big") {
					t.Errorf("%d entries in the journal, want one for each kill: %q", got, n.did.story())
				}
			})
		})
	}
}

// Observations wait as well, and wakes join the next pass.
func TestTheKubeletsPacingMakesOnePassAtATime(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.dies["uid-big"] = 900 * time.Millisecond
		s := settings(t, hard("1Gi"))
		s.Pacing = PacingKubelet
		n.start(s)
		n.memory.falls(gi / 2)
		n.after(time.Millisecond)
		before := n.did.count("observe")
		for range 18 {
			n.memory.wake()
			n.after(100 * time.Millisecond)
		}
		if got := n.did.count("observe") - before; got != 0 {
			t.Errorf("%d observations while the victim was ending, want none", got)
		}
		n.after(200 * time.Millisecond)
		if got := n.did.count("observe") - before; got == 0 || got > 2 {
			t.Errorf("%d observations after it was cleaned up, want one or two", got)
		}
	})
}

// The status counted what went on beside the loop as passes and the metric did not; a
// pass that somebody asked for was one of the "other" kind.
func TestStatusAndMetricCountTheSamePasses(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = 200 * time.Millisecond
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(20 * time.Second)
		if _, err := n.loop.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		for _, want := range []string{
			fmt.Sprintf("evictd_passes_total %d", n.loop.Snapshot().Passes), `evictd_pass_duration_seconds_count{trigger="request"} 1`,
		} {
			if n.metric(want) != want {
				t.Errorf("the metrics do not have %q", want)
			}
		}
	})
}

// A wake looks at the signals that raise the same condition, and at no others. A thousand
// listed the pods each time, and nothing came of it.
func TestOwnSignalsWakeTheirOwnFamily(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.addVendor()
		n.start(ownSettings(t))
		n.after(time.Second)
		v.crosses(spareSignal, 4000)
		if own, shared, memory := n.did.count("1s look at "+string(spareSignal)), n.did.count("1s look at "+string(wearSignal)), n.did.count("1s observe"); own != 1 || shared != 1 || memory != 0 {
			t.Errorf("after the wake %d looks at its signal, %d at the other of its condition, %d at memory; want 1, 1, 0", own, shared, memory)
		}
		n.after(time.Second)
		n.memory.wake()
		n.after(0)
		if own, memory := n.did.count("2s look at"), n.did.count("2s observe"); own != 0 || memory != 1 {
			t.Errorf("after memory's wake %d looks at custom signals, %d at memory; want 0 and 1", own, memory)
		}
		if len(v.watched) != 2 {
			t.Errorf("watched are %v, want both signals in one stream", v.watched)
		}
		before := n.runtime.listings
		for range 1000 {
			v.wake(eviction.Wake{Signal: spareSignal, Cause: "noise"})
			n.after(10 * time.Millisecond)
		}
		if got := n.runtime.listings - before; got > 0 {
			t.Errorf("%d listings in 10 s of which nothing came", got)
		}
		v.withoutSteps()
		v.crosses(spareSignal, 50)
		n.after(100 * time.Millisecond)
		if got := n.runtime.listings - before; got != 1 {
			t.Errorf("%d listings for one eviction", got)
		}
	})
}
