package loop

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// story runs f in a bubble with its own clock.
func story(t *testing.T, f func(t *testing.T, n *node)) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("small", 100*mi)
		n.addPod("big", 2*gi)
		f(t, n)
	})
}

func wantStory(t *testing.T, n *node, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.story(), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}

func TestAWakeEvictsTheTopOfTheRankingAtOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.after(3 * time.Second)
		n.set(gi - 1)
		n.wake()
		n.after(time.Second)
		wantStory(t, n,
			"3s node event NodeHasInsufficientMemory", "3s node event EvictionThresholdMet",
			"3s journal big", "3s event Evicted big", "3s kill big grace 1", "3s gone big")
		if !n.loop.Under(eviction.MemoryPressure) {
			t.Error("MemoryPressure is not in force after the eviction, want it for the transition period")
		}
		if len(n.journal) != 0 {
			t.Errorf("journal has %v after the pod finished, want nothing", n.journal)
		}
	})
}

func TestNoSecondVictimWhileTheFirstIsDying(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"] = 700 * time.Millisecond
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		for range 60 {
			n.after(10 * time.Millisecond)
			n.wake() // the kernel keeps waking
		}
		n.after(time.Minute)
		if got := n.count("kill "); got != 1 {
			t.Errorf("%d kills, want 1: %q", got, n.story())
		}
	})
}

func TestPressureThatStaysTakesTheNextVictimAsSoonAsTheFirstIsGone(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"], n.usage["uid-small"] = 500*time.Millisecond, 1500*mi
		n.run(settings(t, hard("4Gi")), rundir.State{})
		n.settle()
		n.set(gi)
		n.wake()
		n.after(5 * time.Second)
		kills := slices.DeleteFunc(n.story(), func(s string) bool { return !strings.Contains(s, " kill ") })
		if len(kills) != 2 || !strings.HasSuffix(kills[1], "kill small grace 1") || !strings.HasPrefix(kills[1], "5") {
			t.Errorf("kills = %q, want big at once and small when big is gone after about 500 ms", kills)
		}
	})
}

func TestAVictimThatDoesNotDieIsACandidateAgainAfterThirtySeconds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.killErr = errBroken
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(29 * time.Second)
		if got := n.count("kill "); got != 1 {
			t.Errorf("%d kills in the first 29 s, want 1", got)
		}
		n.after(5 * time.Second)
		if got := n.count("kill big"); got != 2 {
			t.Errorf("%d kills of big after 34 s, want 2", got)
		}
	})
}

func TestAKillThatExceedsItsTimeIsReportedAsTheKubeletDoes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"], n.stuck = time.Hour, true
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(12 * time.Second)
		if got := n.count("event " + victim.ReasonExceededGracePeriod + " big"); got != 1 {
			t.Errorf("%d events ExceededGracePeriod, want 1: %q", got, n.story())
		}
	})
}

func TestUnknownActsOnNothingAndIsLookedAtAgainSoon(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.mu.Lock()
		n.observe = func() (eviction.ObserveReply, error) {
			n.note("failed look")
			return eviction.ObserveReply{}, eviction.ErrUnavailable
		}
		n.mu.Unlock()
		n.after(8*time.Second + 750*time.Millisecond)
		if got := n.count("failed look"); got != 4 {
			t.Errorf("%d looks within 750 ms of the first failed one, want 4 (0, 100, 300, 700 ms)", got)
		}
		n.mu.Lock()
		n.observe, n.available = nil, gi/2
		n.mu.Unlock()
		n.after(time.Second)
		if got := n.count("kill big"); got != 1 {
			t.Errorf("%d kills once the figure was back, want 1", got)
		}
	})
}

func TestAnUnknownFigureKeepsTheCondition(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		n.mu.Lock()
		n.observe = func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, eviction.ErrUnavailable }
		n.mu.Unlock()
		n.after(time.Hour)
		if !n.loop.Under(eviction.MemoryPressure) {
			t.Error("MemoryPressure went away while the signal was unknown")
		}
	})
}

func TestASoftThresholdEvictsWhenItsGraceEnds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, soft("1Gi", "4s")), rundir.State{})
		n.settle()
		n.after(time.Second)
		n.set(gi / 2)
		n.wake()
		n.after(3999 * time.Millisecond)
		if got := n.count("kill"); got != 0 {
			t.Fatalf("%d kills before the grace period ended", got)
		}
		n.after(2 * time.Millisecond)
		if got := n.count("5s kill big"); got != 1 {
			t.Errorf("no kill at 5s: %q", n.story())
		}
	})
}

func TestAHardThresholdShortensTheGraceOfASoftVictim(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		both := hard("512Mi")
		both.Soft, both.SoftGracePeriod = map[string]string{"memory.available": "1Gi"}, map[string]string{"memory.available": "1s"}
		n.dies["uid-big"] = time.Hour
		n.run(settings(t, both), rundir.State{})
		n.settle()
		n.set(gi - 1)
		n.wake()
		n.after(2 * time.Second)
		n.set(256 * mi)
		n.wake()
		n.after(2 * time.Second)
		wantStory(t, n,
			"0s node event NodeHasInsufficientMemory", "1s node event EvictionThresholdMet", "1s journal big", "1s event Evicted big",
			"1s kill big grace 120", "2s journal big", "2s kill big grace 1", "3s gone big")
	})
}

func TestARestartedHostFinishesTheKillAndTakesNoSecondVictim(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.set(gi / 2)
		n.dies["uid-big"] = 800 * time.Millisecond
		kill := rundir.Kill{UID: "uid-big", Namespace: "default", Name: "big", Signal: eviction.MemoryAvailable, GraceSeconds: 1}
		n.journal["uid-big"] = kill
		n.run(settings(t, hard("1Gi")), rundir.State{Kills: []rundir.Kill{kill}})
		n.after(30 * time.Second)
		if got := n.count("kill "); got != 1 || n.count("0s kill big grace 1") != 1 {
			t.Errorf("want one kill, of big and at once: %q", n.story())
		}
		if len(n.journal) != 0 {
			t.Errorf("journal has %v, want nothing", n.journal)
		}
	})
}

func TestAJournalThatCannotBeWrittenStopsNoKill(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.saveErr = errBroken
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		if got := n.count("gone big"); got != 1 {
			t.Errorf("big is not gone: %q", n.story())
		}
	})
}

func TestDryRunDecidesAndKillsNobody(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		s := settings(t, hard("1Gi"))
		s.DryRun = true
		n.run(s, rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(5 * time.Second)
		if got := n.story(); len(got) != 0 {
			t.Errorf("a dry run acted, sent events or wrote its journal: %q", got)
		}
		evictions := n.loop.Snapshot().Evictions
		if len(evictions) != 1 || evictions[0].Name != "default/big" || evictions[0].State != victim.StateDryRun {
			t.Errorf("evictions = %+v, want one dry one of default/big", evictions)
		}
	})
}

func TestAReloadKeepsTheTimersOfThresholdsThatStay(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.run(settings(t, soft("1Gi", "4s")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(3 * time.Second)
		more := soft("1Gi", "4s")
		more.Hard = map[string]string{"memory.available": "100Mi"}
		if err := n.loop.Apply(settings(t, more)); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		if got := n.count("4s kill big"); got != 1 {
			t.Errorf("no kill 4 s after the crossing, the reload restarted the grace period: %q", n.story())
		}
		if got := len(n.watched[len(n.watched)-1]); got != 2 {
			t.Errorf("%d thresholds are watched after the reload, want 2", got)
		}
	})
}

func TestTheEndGivesAKillInFlightItsTime(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"] = 900 * time.Millisecond
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(100 * time.Millisecond)
		n.stop()
		if got := n.count("gone big"); got != 1 {
			t.Errorf("the kill was cut off: %q", n.story())
		}
		if len(n.journal) != 0 {
			t.Errorf("journal has %v, want nothing", n.journal)
		}
	})
}

func TestTheEndLeavesALongKillToTheNextHost(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"] = time.Hour
		n.run(settings(t, soft("1Gi", "1s")), rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(2 * time.Second)
		before := time.Now()
		n.stop()
		if took := time.Since(before); took > victim.EndOfKills {
			t.Errorf("ending took %v, want at most %v", took, victim.EndOfKills)
		}
		if _, ok := n.journal["uid-big"]; !ok {
			t.Error("the kill is not in the journal any more")
		}
	})
}

// After a dry run the node was under hard pressure for half a minute before a pod went: the
// one that the dry run had pretended to evict was waited for.
func TestNobodyWaitsForTheVictimOfADryRun(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.dies["uid-big"], n.stuck = time.Minute, true
		s := settings(t, hard("1Gi"))
		s.DryRun = true
		n.run(s, rundir.State{})
		n.settle()
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		s.DryRun = false
		if err := n.loop.Apply(s); err != nil {
			t.Fatal(err)
		}
		n.after(time.Second)
		if n.count("1s kill big") != 1 {
			t.Errorf("%q, want big to go at the reload", n.story())
		}
		n.after(29500 * time.Millisecond) // the pretended end is over
		if len(n.journal) != 1 {
			t.Error("the kill under way is not in the journal any more")
		}
	})
}
