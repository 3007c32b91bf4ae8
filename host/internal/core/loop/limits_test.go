package loop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/metrics"
)

func TestAPodOverItsOwnLimitGoesWithoutPressure(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.limit("small", 10*mi, 11*mi)
		d.limit("big", 10*mi, 10*mi)
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(5 * time.Second)
		n.wantStory("0s journal small", "0s event Evicted small", "0s kill small grace 1", "0s gone small")
		if c := n.loop.Snapshot().Conditions; len(c) != 0 {
			t.Errorf("conditions = %v, want none for a limit of the pod's own", c)
		}
	})
}

// A slow walk of volumes must not hold up anything, and neither must its victim.
func TestLimitsAreCheckedBesideTheLoop(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.measures = 4 * time.Second
		d.limit("small", 10*mi, 11*mi)
		n.runtime.dies["uid-small"] = time.Second
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(3900 * time.Millisecond)
		n.memory.falls(gi / 2)
		n.after(5 * time.Second)
		n.wantStory(
			"3.9s node event NodeHasInsufficientMemory", "3.9s node event EvictionThresholdMet", "3.9s journal big", "3.9s event Evicted big", "3.9s kill big grace 1", "3.9s gone big",
			"4s journal small", "4s event Evicted small", "4s kill small grace 1", "5s gone small")
	})
}

// Passes come each ten seconds. However long it takes to look, looking takes a
// twentieth of the time, and limits are looked at once in little more than a minute.
func TestLimitsCostNoMoreThanATwentiethOfTheTime(t *testing.T) {
	for _, c := range []struct {
		takes  time.Duration
		pacing Pacing
		want   int // looks in ten minutes
	}{
		{0, PacingOneVictim, 60},
		{500 * time.Millisecond, PacingOneVictim, 60},
		{time.Second, PacingOneVictim, 30},
		{5 * time.Second, PacingOneVictim, 9}, // 66 s and the pass that follows
		{5 * time.Second, PacingKubelet, 60},  // in each pass as in the kubelet
	} {
		t.Run(fmt.Sprint(c.takes, " with the pacing of ", c.pacing), func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.measures = c.takes
				d.limit("small", 10*mi, mi)
				s := diskSettings(t, hardDisk("10Gi"))
				s.Pacing = c.pacing
				n.run(s)
				n.after(10*time.Minute - time.Millisecond)
				if d.measured != c.want {
					t.Errorf("looked %d times in ten minutes, want %d", d.measured, c.want)
				}
			})
		})
	}
}

// A quiet pass must cost the same with many pods as with few.
func TestPodsAreListedOnceAMinuteForLimitsThatNoPodHas(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(10*time.Minute - time.Millisecond)
		if n.runtime.listings != 10 || d.measured != 0 {
			t.Errorf("pods listed %d times in ten minutes and measured %d times, want 10 and 0", n.runtime.listings, d.measured)
		}
		d.limit("small", 10*mi, 11*mi)
		n.after(time.Minute)
		n.wantKills("10m0s kill small grace 1")
	})
}

// Limits wait for the runtime to come back. What could be measured counts although the call
// failed: a pod whose limit is on a volume needs no runtime.
func TestLimitsOfThePodsThatCouldBeMeasured(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.knows, d.unmeasured = []string{}, errBroken
		d.limit("small", 10*mi, 11*mi)
		d.limit("big", 10*mi, 11*mi)
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(15 * time.Second)
		n.wantStory()
		d.knows = []string{"uid-small"}
		n.after(10 * time.Second)
		n.wantStory("20s journal small", "20s event Evicted small", "20s kill small grace 1", "20s gone small")
		d.knows, d.unmeasured = nil, nil
		n.after(10 * time.Second)
		if n.did.count("kill big") != 1 {
			t.Errorf("%q, want big too", n.did.story())
		}
	})
}

// What is measured in the background is recorded with the pass that had it measured, and
// not with one that has looked at nothing. A pod that the node's pressure has taken meanwhile
// does not go again.
func TestWhatChangesWhileLimitsAreMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		available int64
		off       bool
		want      []string
	}{
		"nothing":                          {4 * gi, false, []string{"4s kill big grace 1"}},
		"pressure takes the pod":           {gi / 2, false, []string{"0s kill big grace 1"}},
		"a reload switches the limits off": {4 * gi, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.measures = 4 * time.Second
				d.limit("big", 10*mi, 11*mi)
				n.memory.available = c.available
				kept := n.record()
				s := diskSettings(t, hardDisk("10Gi"))
				n.run(s)
				n.after(time.Second)
				s.LocalStorageLimits = !c.off
				n.apply(s)
				n.after(7 * time.Second)
				n.wantKills(c.want...)
				r := kept.last.Decision
				if name == "nothing" && (r == nil || !kept.last.Evicted[0].Limit || r.Trigger == "wake" || r.Now.IsZero() ||
					decision.MS(r.Time, kept.last.Evicted[0].EvictedAt) > -4000 || decision.MS(r.Time, kept.last.Evicted[0].EvictedAt) < -5000) {
					t.Errorf("recorded is %+v", kept.last)
				}
			})
		})
	}
}

// The pod that filled the disk was over its own limit. It went for that, and the disk took
// another one before it had come back.
func TestTheDiskWaitsForAPodThatGoesForItsOwnLimit(t *testing.T) {
	for name, restarted := range map[string]bool{"of this host": false, "of a former host": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.late, n.runtime.dies["uid-big"] = time.Second, 500*time.Millisecond
				d.limit("big", 10*gi, gi)
				d.limit("small", 10*gi, gi)
				if restarted {
					d.volumes["uid-big"], d.available = 45*gi, 5*gi
					n.decidedBefore(victim.Kill{Name: "big", Signal: "emptydirfs.limit", Limit: true}, 0)
				}
				n.start(diskSettings(t, hardDisk("10Gi")))
				d.volumes["uid-big"], d.available = 45*gi, 5*gi
				n.after(40 * time.Second)
				if !n.runtime.running["uid-small"] || n.runtime.running["uid-big"] {
					t.Errorf("%q, want big alone", n.did.story())
				}
			})
		})
	}
}

// It does not keep memory waiting, which it may not relieve.
func TestMemoryDoesNotWaitForAPodThatGoesForItsOwnLimit(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.runtime.stuck, n.runtime.dies["uid-small"] = true, time.Minute
		d.limit("small", 10*mi, 11*mi)
		n.start(diskSettings(t, hardDisk("10Gi")))
		n.memory.falls(gi / 2)
		n.after(100 * time.Millisecond)
		n.wantKills("0s kill big grace 1")
	})
}

// A pod with a limit filled its volume for up to a minute, since others on the node have many files.
func TestAPodThatGrowsOverItsLimitGoesWithinAPass(t *testing.T) {
	const takes = 3 * time.Second // and so all pods are measured again after 57 s
	for name, c := range map[string]struct {
		late  bool  // it has started since
		none  bool  // nothing was known of it
		used  int64 // by small of its 100 MiB, 20 s after the start
		loss  int64 // of the disk until then
		gone  time.Duration
		walks int // in the first minute; one is the check of all pods
	}{
		"the disk has lost what it may have taken":    {false, false, 101 * mi, 100 * mi, 33 * time.Second, 2},
		"the disk has lost less":                      {false, false, 101 * mi, 80 * mi, 63 * time.Second, 1},
		"the loss is another's":                       {false, false, 10 * mi, 100 * mi, 0, 2},
		"it is new":                                   {true, false, 101 * mi, 16 * mi, 33 * time.Second, 2},
		"it was not measured":                         {false, true, 101 * mi, 16 * mi, 33 * time.Second, 2},
		"it is new, and the disk has lost too little": {true, false, 101 * mi, 15 * mi, 63 * time.Second, 1},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.measures = takes
				d.limit("big", 100*gi, mi)
				if !c.late {
					d.limit("small", 100*mi, 10*mi)
				}
				if c.none {
					d.knows = []string{"uid-big"}
				}
				n.run(diskSettings(t, hardDisk("10Gi")))
				n.after(25 * time.Second)
				d.knows = nil
				d.set(d.available - c.loss)
				d.limit("small", 100*mi, c.used)
				n.after(30 * time.Second)
				if d.measured != c.walks {
					t.Errorf("measured %d times within a minute, want %d", d.measured, c.walks)
				}
				n.after(30 * time.Second)
				var want []string
				if c.gone > 0 {
					want = append(want, fmt.Sprintf("%v kill small grace 1", c.gone))
				}
				n.wantKills(want...)
			})
		})
	}
}

// Operators ask which pod fills the disk: what is measured anyway is shown.
func TestPodsThatUseMostOfTheDiskAreMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		top   int
		free  int64
		hangs bool
		want  string
	}{
		"as checked against limits":       {2, 50 * gi, false, "small 1.048576e+07"},
		"as ranked, also without a limit": {2, 9 * gi, false, "big 3.145728e+07, small 1.048576e+07"},
		"as ranked, the largest":          {1, 9 * gi, false, "big 3.145728e+07"},
		"off":                             {0, 9 * gi, false, ""},
		"not measured in the last passes": {2, 50 * gi, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.limit("small", 100*mi, 10*mi)
				d.volumes["uid-big"] = 30 * mi
				n.run(diskSettings(t, hardDisk("10Gi")))
				n.loop.options.Metrics.(*metrics.Metrics).Pods.Show(c.top)
				d.set(c.free)
				n.after(11 * time.Second)
				if d.hangs = c.hangs; c.hangs {
					n.after(2 * time.Minute)
				}
				var got []string
				for _, pod := range []string{"big", "small"} {
					if line := n.metric(fmt.Sprintf(`evictd_pod_usage{namespace="default",pod="%s",signal="nodefs.available"}`, pod)); line != "" {
						got = append(got, pod+line[strings.LastIndex(line, " "):])
					}
				}
				if got := strings.Join(got, ", "); got != c.want {
					t.Errorf("pods are shown with %q, want %q", got, c.want)
				}
			})
		})
	}
}
