package loop

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/choose"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

func TestTheRecordSaysWhatTheVictimIsExpectedToFree(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		kept := n.record()
		n.victimOf(settings(t, hard("1Gi")))
		if v := kept.last.Evicted[0]; v.Key() != "default/big" || v.Promised != eviction.Some(n.memory.usage["uid-big"]) {
			t.Errorf("victim %+v, want the use of default/big, %d", v, n.memory.usage["uid-big"])
		}
	})
}

func TestWhoIsLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		veto RankVeto
		hard bool
		want string
	}{
		"under a hard threshold goes in the built-in order": {VetoSoft, true, "default/big"},
		"under a soft threshold is safe":                    {VetoSoft, false, ""},
		"is always safe by configuration":                   {VetoAlways, true, ""},
		"is never safe by configuration":                    {VetoNever, false, "default/big"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.plugins.addRanker("mine", ranks())
				s := settings(t, soft("1Gi", "1s"))
				if c.hard {
					s = settings(t, hard("1Gi"))
				}
				s.RankVeto = c.veto
				if pod, _ := n.victimOf(s); pod != c.want {
					t.Errorf("victim %q, want %q", pod, c.want)
				}
			})
		})
	}
}

func TestProtectedPodsAreNeverShownToARanker(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.addPod("static", 3*gi)
		n.runtime.pods[2].API.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		n.runtime.addPod("stranger", 3*gi)
		n.runtime.pods[3].HasManifest = false
		var shown []string
		n.plugins.addRanker("mine", func(r eviction.RankRequest) ([]eviction.Ranked, error) {
			for _, c := range r.Candidates {
				shown = append(shown, c.Pod.Name)
			}
			return nil, eviction.ErrRefused
		})
		pod, _ := n.victimOf(settings(t, hard("1Gi")))
		if len(shown) != 2 || pod != "default/big" {
			t.Errorf("ranker saw %q and %q went, want small and big seen, big gone", shown, pod)
		}
	})
}

// With nobody to measure them pods of one priority went in the order in which they
// came.
func TestTheHostMeasuresPodsThatNoPluginMeasures(t *testing.T) {
	for name, c := range map[string]struct {
		measure  error // nil if the plugin is down
		fallback bool
		stands   bool
		victim   string
	}{
		"the plugin fails":                 {eviction.ErrUnavailable, true, false, "big"},
		"it hangs, its source would stand": {eviction.ErrUnavailable, true, true, "big"},
		"its source says no":               {eviction.ErrRefused, true, true, "small"},
		"it is down":                       {nil, true, false, "big"},
		"nobody can":                       {eviction.ErrUnavailable, false, false, "small"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				if c.fallback {
					n.readByHand(c.stands)
				}
				n.memory.available, n.memory.measure = gi/2, c.measure
				if c.measure == nil {
					n.plugins.leave(errBroken)
				}
				n.run(settings(t, hard("1Gi")))
				n.after(1100 * time.Millisecond)
				if n.did.count("kill "+c.victim) != 1 {
					t.Errorf("want %s killed: %v", c.victim, n.did.story())
				}
			})
		})
	}
}

// On a slow machine a pod went by priority alone because nobody had come up yet to
// measure it.
func TestNoPodIsEvictedUnmeasuredBeforeTheFirstStart(t *testing.T) {
	for name, c := range map[string]struct {
		starting bool
		comesUp  bool
		victim   string
	}{
		"it comes up":     {true, true, "big"},
		"it never does":   {true, false, "small"},
		"nobody is to do": {false, false, "small"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.memory.available, n.memory.measure, n.plugins.starting = gi/2, eviction.ErrUnavailable, c.starting
				n.run(settings(t, hard("1Gi")))
				n.after(choose.FirstStarts - time.Second)
				if c.starting {
					n.wantKills()
				}
				if c.comesUp {
					n.memory.measure, n.plugins.starting = nil, false
					n.plugins.changes()
				} else {
					n.after(12 * time.Second) // the interval
				}
				if got := n.did.kills(); len(got) == 0 || !strings.Contains(got[0], "kill "+c.victim) {
					t.Errorf("%q, want %s first", got, c.victim)
				}
			})
		})
	}
}

// What once was silent was never asked again if it was only a fallback observer.
func TestOneLateAnswerIsNotHeldAgainstAPluginForEver(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		late := func() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, context.DeadlineExceeded }
		well := false
		n.plugins.addObserver(func(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
			if !well {
				return late()
			}
			return n.memory.Observe(ctx, r)
		})
		n.readByHand(false)
		n.start(settings(t, hard("1Gi")))
		// The node thrashes: nobody answers in time, once.
		n.memory.measure = context.DeadlineExceeded
		n.memory.answers(late)
		n.memory.falls(900 * mi)
		n.after(2 * time.Second)
		// All is well again.
		well, n.memory.measure = true, nil
		n.memory.answers(nil)
		n.memory.set(4 * gi)
		n.after(10 * time.Minute)
		n.runtime.addPod("hog", 3*gi)
		n.memory.falls(gi / 2)
		n.after(5 * time.Second)
		if n.did.count("kill hog") != 1 {
			t.Errorf("the largest pod was not chosen: %v", n.did.story())
		}
	})
}

// The runtime goes away between two passes: the last figures rank, so that the pod
// that takes the most is still the first to go.
func TestWithoutTheRuntimeTheLastFiguresRankForTheDisk(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.volumes["uid-big"] = 20 * gi // of small nothing is known that would have it go
		n.runtime.dies["uid-big"], n.runtime.stuck = time.Hour, true
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(10 * time.Second)
		d.knows, d.unmeasured = []string{}, errBroken
		n.after(time.Minute) // big is given up after half of it
		n.wantKills("8s kill big grace 1", "49s kill big grace 1")
	})
}

// The look at the victim's containers is for the message alone.
func TestAVictimThatCannotBeLookedIntoGoesAllTheSame(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.hangs, d.volumes["uid-big"] = true, 10*gi
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(8400 * time.Millisecond)
		n.wantKills("8.25s kill big grace 1")
	})
}

// Memory that runs out does not wait until it is known what pods use of the disk, nor for
// what a vendor's plugin takes its time to find out.
func TestMemoryIsActedOnWhileTheDiskIsMeasured(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.measures, d.volumes["uid-small"] = 4*time.Second, 20*gi
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(9 * time.Second)
		n.wantKills()
		n.memory.falls(gi / 2)
		n.after(11 * time.Second)
		n.wantKills("9s kill big grace 1", "12.25s kill small grace 1")
	})
}

// A decision is made again when it is known which pod is to go. A pod that memory had taken
// meanwhile went twice, a soft threshold that was satisfied in between evicted within its new
// grace period, and a figure that had become unknown counted as it was before.
func TestWhatChangesWhilePodsAreMeasured(t *testing.T) {
	ownSoft := policy.ThresholdConfig{Soft: map[string]string{string(spareSignal): "100"}, SoftGracePeriod: map[string]string{string(spareSignal): "30s"}}
	for name, c := range map[string]struct {
		soft    bool
		changes func(*node, *vendor)
		want    []string
	}{
		"nothing": {false, func(*node, *vendor) {}, []string{"4.25s kill big grace 1"}},
		"the pod has gone for memory": {false, func(n *node, _ *vendor) {
			n.memory.set(gi / 2)
			n.memory.wakes[0](eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "test"})
		}, []string{"100ms kill big grace 1", "4.25s kill small grace 1"}},
		"a soft threshold begins its grace anew": {true, func(n *node, v *vendor) {
			v.crosses(spareSignal, 500)
			n.after(500 * time.Millisecond)
			v.crosses(spareSignal, 50)
		}, nil},
		"the signal is unknown": {false, func(n *node, v *vendor) {
			v.instance.Plugin.Observer = observer(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) { return refusing() })
			n.after(0)
			v.wake(eviction.Wake{Signal: spareSignal, Cause: "x"})
		}, nil},
		"there is room again": {false, func(_ *node, v *vendor) { v.crosses(spareSignal, 500) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				v := n.addVendor()
				v.withoutSteps()
				v.measures = 4 * time.Second
				config := ownSoft
				if !c.soft {
					config = policy.ThresholdConfig{Hard: map[string]string{string(spareSignal): "100", "memory.available": "1Gi"}}
				}
				n.start(settings(t, config))
				v.crosses(spareSignal, 50)
				if c.soft {
					n.after(31 * time.Second)
				}
				n.after(100 * time.Millisecond)
				c.changes(n, v)
				n.after(10 * time.Second)
				n.wantKills(c.want...)
			})
		})
	}
}

// With all manifests gone the log said each second that no pod can be evicted, of
// three active ones, and not why.
func TestWhyNoPodCanBeEvicted(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		n.runtime.pods, n.memory.available = nil, gi/2
		for _, name := range []string{"stranger", "unknown", "important", "vetoed"} {
			n.runtime.addPod(name, 1)
		}
		n.runtime.pods[0].HasManifest, n.runtime.pods[1].HasManifest = false, false
		n.runtime.pods[2].API.Spec.Priority = new(int32(2_000_000_000))
		n.plugins.addRanker("nobody", ranks())
		s := settings(t, hard("1Gi"))
		s.RankVeto = VetoAlways
		n.start(s)
		if want := `reason="2 without a manifest, 1 critical or static, 1 left out by the ranker"`; !strings.Contains(n.log.String(), want) {
			t.Errorf("the log lacks %s", want)
		}
		if got := n.metric("evictd_pods_unmanaged"); got != "evictd_pods_unmanaged 2" {
			t.Errorf("the metric says %q, want that two pods are unmanaged", got)
		}
	})
}

// With no manifest at all evictd was healthy while the node ran out of memory.
func TestPodsWithoutAManifestAloneAreAnErrorWhileAHardThresholdIsMet(t *testing.T) {
	const met = "memory.available is below 1Gi and no pod can be evicted: 1 of 2 active pods have no manifest"
	for name, c := range map[string]struct {
		manifest, critical bool // of the other pod
		available          int64
		soft               bool
		want               string
	}{
		"the other one is critical": {true, true, gi / 2, false, met},
		"both have none":            {false, false, gi / 2, false, strings.Replace(met, "1 of 2", "2 of 2", 1)},
		"the node is well":          {false, false, 4 * gi, false, ""},
		"a soft threshold alone":    {false, false, gi / 2, true, ""},
		"the other one was evicted": {true, false, gi / 2, false, strings.Replace(met, "1 of 2", "1 of 1", 1)},
		"the other one is left out": {true, false, gi / 2, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.runtime.pods, n.memory.available = nil, c.available
				n.runtime.addPod("stranger", 1)
				n.runtime.addPod("other", 1)
				n.runtime.pods[0].HasManifest, n.runtime.pods[1].HasManifest = false, c.manifest
				if c.critical {
					n.runtime.pods[1].API.Spec.Priority = new(int32(2_000_000_000))
				}
				config := hard("1Gi")
				if c.soft {
					config = soft("1Gi", "1s")
				}
				n.run(settings(t, config))
				n.after(12 * time.Second) // the pace after one that was not enough
				got := ""
				if err := n.loop.Snapshot().Unevictable(); err != nil {
					got = err.Error()
				}
				logged := strings.Contains(n.log.String(), "level=ERROR msg=\"no pod can be evicted\"")
				if got != c.want || logged != (c.want != "") {
					t.Errorf("%q, in the log as an error: %v, want %q", got, logged, c.want)
				}
				n.memory.set(8 * gi)
				n.after(20 * time.Second)
				if err := n.loop.Snapshot().Unevictable(); err != nil {
					t.Errorf("%v, with the node well", err)
				}
			})
		})
	}
}
