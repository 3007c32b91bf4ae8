package loop

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// The conditions of a pass are handed on, and in force, before the first kill for them: a pod was
// admitted in the place of a victim.
func TestAWakeEvictsTheTopOfTheRankingAtOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		var last []eviction.Condition
		n.options.Conditions = func(c []eviction.Condition) {
			if slices.Contains(c, eviction.MemoryPressure) != n.loop.Under(eviction.MemoryPressure) {
				t.Errorf("conditions %v are not in force yet", c)
			}
			if !slices.Equal(c, last) {
				n.did.note("conditions %v", c)
			}
			last = c
		}
		n.start(settings(t, hard("1Gi")))
		n.after(3 * time.Second)
		n.memory.falls(gi - 1)
		n.after(time.Second)
		n.wantStory(
			"3s node event NodeHasInsufficientMemory", "3s conditions [MemoryPressure]", "3s node event EvictionThresholdMet",
			"3s journal big", "3s event Evicted big", "3s kill big grace 1", "3s gone big")
		if !n.loop.Under(eviction.MemoryPressure) {
			t.Error("MemoryPressure is not in force after the eviction, want it for the transition period")
		}
		if len(n.journal.kills) != 0 {
			t.Errorf("journal has %v after the pod finished, want nothing", n.journal.kills)
		}
	})
}

// The event said that the node has insufficient memory, while the kubelet's condition was False.
func TestWhereConditionsAreAKubeletsTheEventSaysWhatEvictdSees(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.options.TellConditions = SeenEvent
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi - 1)
		n.after(time.Second)
		n.wantStory("0s node event MemoryPressureObserved", "0s node event EvictionThresholdMet", "0s journal big", "0s event Evicted big", "0s kill big grace 1", "0s gone big")
	})
}

func TestNoSecondVictimWhileTheFirstIsDying(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.dies["uid-big"] = 700 * time.Millisecond
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		for range 60 {
			n.after(10 * time.Millisecond)
			n.memory.wake() // the kernel keeps waking
		}
		w := n.loop.Snapshot().Waiting
		if len(w) != 1 || w[0].Signal != eviction.MemoryAvailable || w[0].For != policy.WaitForEnd || !slices.Equal(w[0].Victims, []string{"default/big"}) || w[0].Until.IsZero() {
			t.Errorf("the status says %+v is waited for, want the end of default/big", w)
		}
		n.after(time.Minute)
		n.wantKills("0s kill big grace 1")
	})
}

func TestPressureThatStaysTakesTheNextVictimAsSoonAsTheFirstIsGone(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.dies["uid-big"], n.runtime.usage["uid-small"] = 500*time.Millisecond, 1500*mi
		n.start(settings(t, hard("4Gi")))
		n.memory.falls(gi)
		n.after(5 * time.Second)
		if kills := n.did.kills(); len(kills) != 2 || !strings.HasSuffix(kills[1], "kill small grace 1") || !strings.HasPrefix(kills[1], "5") {
			t.Errorf("kills = %q, want big at once and small when big is gone after about 500 ms", kills)
		}
	})
}

func TestAVictimThatDoesNotDieIsACandidateAgainAfterThirtySeconds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.killErr = errBroken
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		n.after(29 * time.Second)
		n.wantKills("0s kill big grace 1")
		n.after(5 * time.Second)
		if got := n.did.count("kill big"); got != 2 {
			t.Errorf("%d kills of big after 34 s, want 2", got)
		}
	})
}

// A kill that failed early was given up after half a minute, with most of the pod's grace
// still to come: whoever minds no SIGTERM lived on, and another pod went.
func TestAKillThatFailedIsNotGivenUpBeforeTheGraceIsOver(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.killErr = errBroken
		n.start(settings(t, soft("1Gi", "10s")))
		n.memory.set(gi / 2)
		n.after(130 * time.Second)
		if n.did.count("kill ") != 1 || n.did.count("kill big grace 120") != 1 || len(n.journal.kills) != 1 {
			t.Errorf("%q and %d kills in the journal, want big, with 120 s, still waited for", n.did.story(), len(n.journal.kills))
		}
	})
}

func TestAKillThatExceedsItsTimeIsReportedAsTheKubeletDoes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.dies["uid-big"], n.runtime.stuck = time.Hour, true
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		n.after(12 * time.Second)
		if got := n.did.count("event " + victim.ReasonExceededGracePeriod + " big"); got != 1 {
			t.Errorf("%d events ExceededGracePeriod, want 1: %q", got, n.did.story())
		}
	})
}

func TestAHardThresholdShortensTheGraceOfASoftVictim(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		config := soft("1Gi", "1s")
		config.Hard = hard("512Mi").Hard
		n.runtime.dies["uid-big"] = time.Hour
		n.start(settings(t, config))
		n.memory.falls(gi - 1)
		n.after(2 * time.Second)
		n.memory.falls(256 * mi)
		n.after(2 * time.Second)
		n.wantStory(
			"0s node event NodeHasInsufficientMemory", "1s node event EvictionThresholdMet", "1s journal big", "1s event Evicted big",
			"1s kill big grace 120", "2s journal big", "2s kill big grace 1", "3s gone big")
	})
}

func TestAJournalThatCannotBeWrittenStopsNoKill(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.journal.err = errBroken
		n.start(settings(t, hard("1Gi")))
		n.memory.falls(gi / 2)
		n.after(time.Second)
		n.wantKills("0s kill big grace 1")
	})
}

// After a dry run the node was under hard pressure for half a minute before a pod went: the
// one that the dry run had pretended to evict was waited for.
func TestDryRunDecidesAndKillsNoPod(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.dies["uid-big"], n.runtime.stuck = time.Minute, true
		s := settings(t, hard("1Gi"))
		s.DryRun = true
		n.start(s)
		n.memory.falls(gi / 2)
		n.after(5 * time.Second)
		n.wantStory() // nor does it send events or write its journal
		evictions := n.loop.Snapshot().Evictions
		if len(evictions) != 1 || evictions[0].Pod != "default/big" || evictions[0].State != victim.StateDryRun {
			t.Errorf("evictions = %+v, want one dry one of default/big", evictions)
		}
		s.DryRun = false
		n.apply(s)
		n.after(time.Second)
		n.wantKills("5s kill big grace 1")
		n.after(29500 * time.Millisecond) // the pretended end is over
		if len(n.journal.kills) != 1 {
			t.Error("the kill under way is not in the journal any more")
		}
	})
}

// The hog's memory came back 3 s after its end: six innocent pods went in 143 ms. A volume in
// memory is waited for until it is gone, as by the kubelet.
func TestMemoryThatComesBackLateCostsNoOtherPod(t *testing.T) {
	for name, c := range map[string]struct {
		late   time.Duration
		volume bool
		want   int
	}{
		"after 3 s": {3 * time.Second, false, 1}, "after 9 s": {9 * time.Second, false, 1},
		"after 25 s": {25 * time.Second, false, 3}, "never": {time.Hour, false, 6}, "with its volume, after 25 s": {25 * time.Second, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.runtime.pods, n.runtime.volumes = nil, map[string]bool{"uid-hog": c.volume}
				n.runtime.addPod("hog", 500*mi)
				n.runtime.pods[0].Row.Volumes = []eviction.Volume{{Name: "shm", Kind: "emptyDir", Medium: "Memory"}}
				for i := range 6 {
					n.runtime.addPod(fmt.Sprintf("innocent-%d", i), 20*mi)
				}
				n.start(settings(t, hard("1Gi")))
				n.memory.answers(func() (eviction.ObserveReply, error) {
					available := gi - 50*mi + n.runtime.released(n.runtime.usage, c.late)
					n.runtime.volumes["uid-hog"] = c.volume && available < gi
					return figure(available, 8*gi, time.Now())
				})
				for range 595 {
					n.memory.wake()
					n.after(100 * time.Millisecond)
				}
				if got := n.did.kills(); len(got) != c.want {
					t.Errorf("%q in a minute, want %d", got, c.want)
				}
				if events := n.did.count("node event " + victim.EventReasonPace); (events > 0) == c.volume {
					t.Errorf("%d events about the pace, want some: %v", events, !c.volume)
				}
			})
		})
	}
}

// A daemon outside of all pods holds the memory: ten innocent pods went in 150 ms. Each
// brings what it used.
func TestWhenNoPodHoldsItTheKubeletsPaceHolds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.pods = nil
		for i := range 10 {
			n.runtime.addPod(fmt.Sprintf("innocent-%d", i), 20*mi)
		}
		n.start(settings(t, hard("1Gi")))
		n.memory.set(gi / 2)
		for range 350 {
			n.memory.wake()
			n.after(100 * time.Millisecond)
		}
		if got := n.did.kills(); len(got) != 4 || !strings.HasPrefix(got[0], "0s ") || !strings.HasPrefix(got[1], "10") || !strings.HasPrefix(got[3], "30") {
			t.Errorf("%q in 35 s, want one in 10 s", got)
		}
		if w := n.loop.Snapshot().Waiting; len(w) != 1 || w[0].For != policy.WaitForPace || w[0].Reason != policy.NoHolder {
			t.Errorf("the status has %+v, want that no pod holds it", w)
		}
		if log := n.log.String(); !strings.Contains(log, `holder="process 7 \"db\" with 6Gi"`) || !strings.Contains(log, "no pod holds it") || n.did.count("node event "+victim.EventReasonPace) != 1 {
			t.Errorf("want it in the log and one event: %q", n.did.story())
		}
	})
}

// A controller makes each pod again at once, and it takes all memory within half a second:
// 34 went in 20 s.
func TestTheReplacementOfAVictimGoesAtTheKubeletsPace(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.pods = nil
		n.runtime.addPod("bystander", 300*mi)
		made := 0
		leak := func() {
			made++
			n.runtime.addPod(fmt.Sprintf("leak-%d", made), 4*gi)
			n.runtime.pods[made].API.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "leak", UID: types.UID("uid-leak"), Controller: new(true)}}
			n.runtime.pods[made].Row.StartTime = time.Now().Truncate(time.Second)
			n.memory.set(gi - 100*mi)
		}
		n.start(settings(t, hard("1Gi")))
		leak()
		for range 120 {
			n.memory.wake()
			n.after(500 * time.Millisecond)
			if !n.runtime.running[fmt.Sprintf("uid-leak-%d", made)] {
				leak()
			}
		}
		got := n.did.kills()
		if len(got) < 6 || len(got) > 7 || strings.Contains(strings.Join(got, ""), "bystander") {
			t.Errorf("%q in a minute, want one of leak each time that a kubelet looks again", got)
		}
	})
}

// The figure of memory lags by up to eight seconds, or the filesystem frees what was
// deleted that much later: as many pods go as must, and no more.
func TestRoundsWithAFigureThatLags(t *testing.T) {
	r := rand.New(rand.NewPCG(10, 40))
	for round := range 40 {
		lag := time.Duration(round) * 8 * time.Second / 39
		story(t, func(t *testing.T, n *node) {
			n.runtime.pods, n.memory.available = nil, 50*gi
			d := n.addDisk()
			for i := range 6 {
				n.runtime.addPod(fmt.Sprint("pod-", i), (1+r.Int64N(40))*gi/10)
				d.volumes[n.runtime.pods[i].Row.UID] = n.runtime.usage[n.runtime.pods[i].Row.UID]
			}
			available := r.Int64N(10 * gi)
			must, left := 0, available
			for _, use := range slices.Backward(slices.Sorted(maps.Values(d.volumes))) {
				if left < 10*gi {
					must, left = must+1, left+use
				}
			}
			if round%2 == 0 {
				n.start(settings(t, hard("10Gi")))
				n.memory.answers(func() (eviction.ObserveReply, error) {
					return figure(available+n.runtime.released(d.volumes, lag), 100*gi, time.Now().Add(-lag))
				})
			} else {
				n.start(diskSettings(t, hardDisk("10Gi")))
				d.available, d.late = available, lag
			}
			n.after(5 * time.Minute)
			if got := n.did.kills(); len(got) != must {
				t.Errorf("round %d: %v late, %d of %v available: want %d victims: %q", round, lag, available, d.volumes, must, got)
			}
		})
	}
}

// A hog had the rest of the memory within its grace period of a second, and the kernel's OOM killer was first.
func TestAVictimHasNoGraceOnceMemoryIsExhausted(t *testing.T) {
	for left, want := range map[int64][]string{gi / 4: {"0s kill big grace 1"}, gi/4 - 1: {"0s kill big grace 1", "100ms kill big grace 0"}} {
		story(t, func(t *testing.T, n *node) {
			n.runtime.dies["uid-big"] = time.Second
			n.start(settings(t, hard("1Gi")))
			n.memory.falls(gi - 1)
			n.after(100 * time.Millisecond)
			n.memory.falls(left)
			n.after(700 * time.Millisecond)
			if got := n.did.kills(); !slices.Equal(got, want) {
				t.Errorf("%d bytes left: %q, want %q", left, got, want)
			}
		})
	}
}

// The victim of a hard threshold goes on growing until it ends. What it takes comes
// back with it, and no other pod goes for that, nor for one that cannot be measured again.
func TestAVictimThatGrowsWhileItEndsCostsNoOtherPod(t *testing.T) {
	for name, c := range map[string]struct {
		grows   string
		measure error
		want    int
	}{
		"the victim grows":                    {"uid-big", nil, 1},
		"the victim cannot be measured again": {"uid-big", errBroken, 1},
		"another grows":                       {"uid-other", nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.runtime.addPod("other", 150*mi)
				n.runtime.dies["uid-big"] = 900 * time.Millisecond
				n.start(settings(t, hard("1Gi")))
				n.memory.falls(gi - 1)
				n.after(100 * time.Millisecond)
				n.runtime.usage[c.grows] += 2500 * mi
				n.memory.measure = c.measure
				n.memory.falls(gi - 1 - 2500*mi)
				n.after(700 * time.Millisecond)
				victims := map[string]bool{}
				for _, kill := range n.did.kills() { // again with a shorter grace period
					victims[strings.Fields(kill)[2]] = true
				}
				if len(victims) != c.want {
					t.Errorf("%v while big is ending, want %d", victims, c.want)
				}
			})
		})
	}
}

// A victim grew between the sample and its measurement. What it could not bring back was
// waited for, and the next one came two seconds late.
func TestAVictimThatGrewBeforeItWasMeasuredDelaysNoEviction(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.usage["uid-big"], n.runtime.usage["uid-small"] = 600*mi, 300*mi
		n.runtime.dies["uid-big"] = 400 * time.Millisecond
		n.start(settings(t, hard("1Gi")))
		grown := false
		n.memory.answers(func() (eviction.ObserveReply, error) {
			available := n.memory.available
			if !grown && available < gi {
				grown, n.runtime.usage["uid-big"], n.memory.available = true, 800*mi, available-200*mi
			}
			return figure(available, 8*gi, time.Now())
		})
		n.memory.falls(gi - 1)
		n.after(700 * time.Millisecond)
		n.runtime.usage["uid-small"] = 950 * mi
		n.memory.falls(n.memory.available - 650*mi)
		n.after(100 * time.Millisecond)
		if got := n.did.kills(); len(got) != 2 || !strings.Contains(got[1], "kill small") {
			t.Errorf("%q, want small too at once: all that big had used is back", got)
		}
	})
}

// The relief of image-gc was taken for that of the victim, and a second pod went
// before the filesystem had given back the victim's.
func TestWhatReclaimFreesIsNotTheVictimsRelief(t *testing.T) {
	for name, c := range map[string]struct{ available, reclaimed int64 }{
		"nothing is reclaimed": {7 * gi, 0},
		"3Gi are reclaimed":    {4 * gi, 3 * gi},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.frees["image-gc"] = c.reclaimed
				d.volumes["uid-big"], d.volumes["uid-small"] = 5*gi, gi
				d.late = 8 * time.Second
				n.start(diskSettings(t, hardDisk("10Gi")))
				d.set(c.available)
				n.after(8010 * time.Millisecond)
				d.frees["image-gc"] = 0
				n.after(time.Minute)
				n.wantKills("8s kill big grace 1") // its 5Gi end the pressure
			})
		})
	}
}

// The containers of a victim have ended, its volumes are still being removed: another
// pod must not go for space that is on its way back. Memory does not wait for that.
func TestTheNextDiskVictimWaitsForWhatTheLastOneFrees(t *testing.T) {
	for what, c := range map[string]struct {
		then func(*podRuntime, *disk)
		want string
	}{
		"its volumes go and bring relief": {func(r *podRuntime, d *disk) { r.volumes, d.available = nil, 25*gi }, ""},
		"they go and bring nothing":       {func(r *podRuntime, _ *disk) { r.volumes = nil }, "30."},
		"they go and relief comes later": {func(r *podRuntime, d *disk) {
			r.volumes = nil
			time.AfterFunc(8*time.Second, func() { d.set(25 * gi) })
		}, ""},
		"they go and do not suffice": {func(r *podRuntime, d *disk) { r.volumes, d.available = nil, -16*gi }, "21."},
		"nobody removes them":        {func(*podRuntime, *disk) {}, "38.1s"},
		"memory runs out":            {func(r *podRuntime, _ *disk) { r.memory.available = gi / 2 }, "25.1s"},
	} {
		t.Run(what, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.volumes["uid-big"] = 20 * gi
				n.runtime.dies["uid-big"] = 100 * time.Millisecond
				n.runtime.volumes = map[string]bool{"uid-big": true}
				s := diskSettings(t, hardDisk("10Gi"))
				s.MonitoringInterval = 9 * time.Second
				n.start(s)
				d.set(5 * gi)
				n.after(20 * time.Second)
				n.wantKills("7s kill big grace 1")
				if len(n.journal.kills) != 1 { // a host that is started now must wait for it, too
					t.Errorf("journal has %v while the volumes of big are there", n.journal.kills)
				}
				c.then(n.runtime, d)
				n.after(2 * time.Second)
				if n.runtime.volumes == nil && n.journal.kills["uid-big"].UID != "" {
					t.Error("the journal has big after its volumes are gone")
				}
				n.after(28 * time.Second)
				kills := slices.DeleteFunc(n.did.kills(), func(s string) bool { return !strings.Contains(s, " kill small") })
				if got := strings.Join(kills, ", "); (got == "") != (c.want == "") || len(kills) > 1 || !strings.HasPrefix(got, c.want) {
					t.Errorf("then %q, want %q", got, c.want)
				}
			})
		})
	}
}
