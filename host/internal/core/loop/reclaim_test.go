package loop

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

// kubeletDisks returns the kubelet's defaults for disks.
func kubeletDisks() policy.ThresholdConfig {
	return policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}}
}

func hardDisk(value string) policy.ThresholdConfig {
	return policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": value, "memory.available": "1Gi"}}
}

func diskSettings(t *testing.T, c policy.ThresholdConfig) Settings {
	s := settings(t, c)
	s.LocalStorageLimits = true
	return s
}

var layoutReports = map[string]*eviction.LayoutReport{
	"shared":      {},
	"imagefs":     {ImageFs: true},
	"containerfs": {ImageFs: true, ContainerFs: true},
}

func TestAPodGoesWhenReclaimIsNotEnough(t *testing.T) {
	met := []string{"8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim container-gc", "8s reclaim image-gc"}
	for name, c := range map[string]struct {
		frees int64
		fails error
		want  []string
	}{
		"enough":     {20 * gi, nil, nil},
		"not enough": {gi, errBroken, []string{"8s journal big", "8s event Evicted big", "8s kill big grace 1", "8s gone big"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.frees["image-gc"], d.fails, d.volumes["uid-big"] = c.frees, c.fails, 10*gi
				n.start(diskSettings(t, hardDisk("10Gi")))
				d.set(5 * gi)
				n.after(9 * time.Second)
				n.wantStory(slices.Concat(met, c.want)...)
			})
		})
	}
}

// The check after reclaim already has the thresholds that are derived in this
// pass, although the pass itself does not look at them.
func TestReclaimIsNotEnoughWhileADerivedThresholdIsMet(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout, d.available = &eviction.LayoutReport{ImageFs: true}, 5*gi
		d.volumes["uid-big"] = 10 * gi
		d.afterGC = map[eviction.Signal]int64{eviction.ImageFsAvailable: 50 * gi, eviction.ContainerFsAvailable: gi}
		n.run(onRequest(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "10Gi"}})))
		o, err := n.loop.Synchronize(t.Context())
		if err != nil || o.ReclaimSufficed || len(o.Evicted) != 1 {
			t.Errorf("outcome %+v, %v; want an eviction, since writable layers lack room", o, err)
		}
	})
}

// Where nobody can be evicted each pass would else begin the next reclaim.
func TestReclaimThatDoesNotHelpIsNotRepeatedAtOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes, d.available = 10*time.Millisecond, 5*gi
		n.runtime.pods = nil
		n.run(diskSettings(t, hardDisk("10Gi")))
		n.after(time.Minute)
		if got := n.did.count("reclaim "); got < 2 || got > 2*7 {
			t.Errorf("%d steps in a minute, want two each ten seconds", got)
		}
	})
}

func TestADryRunReclaimsNothing(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		s := diskSettings(t, hardDisk("10Gi"))
		s.DryRun = true
		kept := n.record()
		n.start(s)
		d.set(5 * gi)
		n.after(time.Minute)
		n.wantStory()
		if r := kept.last.Decision; len(r.Reclaim) != 2 || r.Reclaim[1].Step != "image-gc" || r.Reclaim[1].NotRun == "" {
			t.Errorf("the record has %+v, want both steps, and why they were not run", r.Reclaim)
		}
		if got := n.loop.Snapshot().Evictions; len(got) == 0 || got[0].State != victim.StateDryRun {
			t.Errorf("evictions = %+v, want one that was not made", got)
		}
	})
}

// Steps that were still to come ran although a reload had made it a dry run.
func TestADryRunEndsReclaimThatIsUnderWay(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.volumes["uid-big"] = 10 * gi
		n.plugins.addStep("vendor", "drop-cache", func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			n.did.note("drop-cache")
			return eviction.Reclaimed{}, wait(t.Context(), 5*time.Second)
		}, eviction.NodeFsAvailable)
		s := diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi"}})
		n.start(s)
		d.set(5 * gi)
		n.after(11 * time.Second)
		s.DryRun = true
		n.apply(s)
		n.after(30 * time.Second)
		if n.did.count("drop-cache") != 1 || n.did.count("reclaim ")+n.did.count("kill ") != 0 {
			t.Errorf("%q, want no step after the first", n.did.story())
		}
	})
}

// Image GC may take minutes. Memory that runs out meanwhile must not wait for it.
func TestMemoryIsActedOnWhileTheDiskIsCleaned(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = time.Minute
		d.frees["image-gc"] = 20 * gi
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(20 * time.Second)
		n.memory.falls(gi / 2)
		n.after(time.Second)
		n.wantStory("8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim container-gc",
			"20s node event NodeHasInsufficientMemory", "20s node event EvictionThresholdMet", "20s journal big", "20s event Evicted big", "20s kill big grace 1", "20s gone big")
		n.after(3 * time.Minute)
		if got := n.did.count("reclaim "); got != 2 {
			t.Errorf("%d reclaim steps, want the two of one reclaim: %q", got, n.did.story())
		}
		n.wantKills("20s kill big grace 1")
	})
}

func TestACustomStepThatIsEnoughSparesTheBuiltInOnes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.plugins.addStep("vendor", "drop-cache", func(r eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			n.did.note("reclaim %s", r.Step)
			d.set(30 * gi)
			return eviction.Reclaimed{Bytes: 25 * gi}, nil
		}, eviction.NodeFsAvailable, eviction.ContainerFsAvailable)
		for i := range n.plugins.custom[0].Plugin.Signals {
			steps := &n.plugins.custom[0].Plugin.Signals[i].ReclaimSteps
			*steps = append(*steps, eviction.ReclaimStep{Name: "drop-more"})
		}
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(time.Minute)
		n.wantStory("8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim drop-cache")
	})
}

// What reclaim had done was only in the log.
func TestTheStatusHasTheLastReclaimForEachSignal(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = 1500 * time.Millisecond
		d.frees["image-gc"] = 20 * gi
		says := eviction.Reclaimed{Bytes: 7, Inodes: 3, Message: "dropped the oldest"}
		var fails error
		n.plugins.addStep("vendor", "drop-cache", func(eviction.ReclaimRequest) (eviction.Reclaimed, error) { return says, fails }, eviction.NodeFsAvailable)
		n.start(diskSettings(t, hardDisk("10Gi")))
		if got := n.loop.Snapshot().Reclaims; got != nil {
			t.Errorf("reclaims %+v before there was one", got)
		}
		want := func(first string) {
			t.Helper()
			reclaims := slices.Clone(n.loop.Snapshot().Reclaims)
			for i, r := range reclaims { // without what is another one in each run
				if r.Pass == 0 || r.Time.Before(n.did.start) || r.Time.After(time.Now()) {
					t.Errorf("pass %d at %v, want one since %v", r.Pass, r.Time, n.did.start)
				}
				reclaims[i].Pass, reclaims[i].Time = 0, time.Time{}
			}
			got, _ := json.Marshal(reclaims)
			if diff := cmp.Diff(`[{"pass":0,"time":"0001-01-01T00:00:00Z","signal":"nodefs.available","steps":[`+first+
				`{"step":"container-gc","by":"disk","bytesFreed":0,"inodesFreed":0,"tookSeconds":1.5},{"step":"image-gc","by":"disk","bytesFreed":21474836480,"inodesFreed":0,"tookSeconds":1.5}],"sufficed":true}]`, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
		d.set(5 * gi)
		n.after(time.Minute)
		want(`{"step":"drop-cache","by":"vendor","bytesFreed":7,"inodesFreed":3,"message":"dropped the oldest","tookSeconds":0},`)
		// The next one takes its place, its errors are reported.
		says, fails = eviction.Reclaimed{}, errBroken
		d.set(5 * gi)
		n.after(time.Minute)
		want(`{"step":"drop-cache","by":"vendor","bytesFreed":0,"inodesFreed":0,"tookSeconds":0,"error":"broken"},`)
	})
}

// A plugin was replaced while a vendor's step ran. Its own step was asked of the process
// that had ended, and a pod went with the images untouched.
func TestStepsAreRunByThePluginThatServesThen(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.frees["image-gc"], d.volumes["uid-big"] = 45*gi, 10*gi
		disk := &n.plugins.builtin[1]
		successor, ended := *(*disk).Plugin, *(*disk).Plugin
		ended.Reclaimer = reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			return eviction.Reclaimed{}, eviction.ErrUnavailable
		})
		(*disk).Plugin = &ended
		n.plugins.addStep("vendor", "drop-cache", func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			n.mu.Lock()
			defer n.mu.Unlock()
			*disk = &registry.Instance{Name: "disk", Generation: 9, Plugin: &successor}
			return eviction.Reclaimed{}, nil
		}, eviction.NodeFsAvailable)
		n.start(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi"}}))
		d.set(5 * gi)
		n.after(30 * time.Second)
		n.wantKills() // the images are enough
	})
}

// What containers have left behind may only go by the list of pods if that is all of them,
// and there is none for a program that knows its pods.
func TestReclaimGetsWhetherAllPodsAreKnown(t *testing.T) {
	l := New(Options{Metrics: metrics.New("", "")})
	for _, complete := range []bool{true, false} {
		p := &pass{list: func() (pods.Snapshot, error) {
			return pods.Snapshot{Pods: []pods.Pod{{Row: eviction.Pod{UID: "a"}}}, Complete: complete}, nil
		}}
		for name, standIns := range map[string]map[string]ReclaimFunc{"plugin": nil, "embedder": {"trim": func(context.Context) error { return nil }}} {
			r := &reclaimRun{groups: [][]registry.Step{{{Name: "trim"}}}, standIns: standIns}
			r.prepared(l, p)
			listed := name == "plugin"
			if got := r.request; got.AllSourcesReady != (complete && listed) || len(got.Pods) == 1 != listed {
				t.Errorf("%s, complete %v: %d pods in the request, all: %v", name, complete, len(got.Pods), got.AllSourcesReady)
			}
		}
	}
}

// A step gets what is missing when it runs.
func TestReclaimGetsHowMuchIsMissing(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		for _, name := range []string{"a", "b"} {
			n.plugins.addStep(name, "step-"+name, func(r eviction.ReclaimRequest) (eviction.Reclaimed, error) {
				n.did.note("%s is short of %d Gi", r.Step, r.Shortfall/gi)
				d.set(7 * gi)
				return eviction.Reclaimed{Bytes: 2 * gi}, nil
			}, eviction.NodeFsAvailable)
		}
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(10 * time.Second)
		for _, want := range []string{"step-a is short of 5 Gi", "step-b is short of 3 Gi"} {
			if n.did.count(want) != 1 {
				t.Errorf("%q, want %q", n.did.story(), want)
			}
		}
	})
}

// A plugin of memory that had come to hang stayed, and no other process in its place, for as
// long as a step took on a disk.
func TestReclaimKeepsNoPluginOfAnotherCondition(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = time.Minute
		for i, p := range n.plugins.builtin {
			n.plugins.builtin[i] = registry.NewInstance(p.Name, p.Generation, 1, p.Plugin)
		}
		memory, disk := n.plugins.builtin[0], n.plugins.builtin[1]
		n.start(diskSettings(t, hardDisk("10Gi")))
		d.set(5 * gi)
		n.after(10 * time.Second)
		if n.did.count("reclaim ") != 1 {
			t.Fatalf("%q, want a step under way", n.did.story())
		}
		n.plugins.current.Publish(registry.New(nil, nil)) // both are condemned
		n.after(time.Second)
		if !memory.Ended() || disk.Ended() {
			t.Errorf("memory ended: %v, want so; disk, whose step runs, ended: %v, want not", memory.Ended(), disk.Ended())
		}
	})
}

func TestSynchronizeDoesItAllBeforeItReturns(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available, d.takes, d.frees["image-gc"] = 5*gi, 3*time.Second, gi
		n.runtime.dies["uid-big"], d.volumes["uid-big"] = 700*time.Millisecond, 10*gi
		s := onRequest(diskSettings(t, hardDisk("10Gi")))
		s.Pacing = PacingKubelet
		n.run(s)
		n.after(time.Minute)
		n.wantStory() // nobody asked
		n.did.start = time.Now()
		o, err := n.loop.Synchronize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Evicted) != 1 || o.Evicted[0].Pod.Row.Name != "big" || len(o.Reclaim) != 2 || o.ReclaimSufficed || o.Candidates[o.Order[0]].Usage != 10*gi {
			t.Errorf("outcome = %+v, want two steps that were not enough and then big", o)
		}
		n.wantStory("0s node event NodeHasDiskPressure", "0s node event EvictionThresholdMet", "0s reclaim container-gc", "3s reclaim image-gc",
			"6s journal big", "6s event Evicted big", "6s kill big grace 1", "6.7s gone big")
		if err := n.loop.AwaitCleanup(t.Context(), o); err != nil || time.Since(n.did.start) != 7700*time.Millisecond {
			t.Errorf("clean-up took until %v (%v), want one look after a second", time.Since(n.did.start), err)
		}
	})
}

// The threshold for writable layers follows from that of the images and sorts before
// it. Pods went one after the other, the vendor's cache untouched, because the
// built-in plugin alone was asked for it. The twin: the cache is not enough, and one pod
// goes, the one the vendor says.
func TestTheVendorOfTheImagesIsAskedWhateverNameTheirFilesystemHas(t *testing.T) {
	for layout, report := range layoutReports {
		config := kubeletDisks()
		if report.ContainerFs { // the kubelet's is another filesystem, which is not full
			delete(config.Hard, "nodefs.available")
		}
		for name, frees := range map[string]int64{"enough": 40 * gi, "not enough": gi} {
			t.Run(layout+", "+name, func(t *testing.T) {
				story(t, func(t *testing.T, n *node) {
					d := n.addDisk()
					d.layout, d.volumes["uid-big"] = report, 10*gi
					v := d.addArray(eviction.ImageFsAvailable)
					v.frees, v.ranks = frees, "small"
					config, want := config, []string(nil)
					if frees == gi {
						config, want = policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "15%"}}, []string{"8s kill small grace 1"}
					}
					n.start(diskSettings(t, config))
					d.set(5 * gi)
					n.after(8500 * time.Millisecond)
					if want != nil {
						d.set(50 * gi) // what the victim had
					}
					n.after(time.Minute)
					n.wantKills(want...)
					if got := n.did.count("reclaim acme.example/empty-cache for imagefs.available"); got != 1 {
						t.Errorf("the cache was emptied %d times, want once: %q", got, n.did.story())
					}
					if e := n.loop.Snapshot().Evictions; len(e) > 0 && (e[0].Ranker != "acme-images" || e[0].RankReason != "lives on the array") {
						t.Errorf("evictions %+v, want one, ranked by the vendor by its own figures", e)
					}
				})
			})
		}
	}
}

// A step that is listed for one name of the filesystem was not run for the others:
// the images' threshold is the higher one and is met first.
func TestAStepForTheKubeletsFilesystemRunsWhereImagesShareIt(t *testing.T) {
	for name, c := range map[string]struct {
		report *eviction.LayoutReport
		steps  int
	}{
		"shared":                  {&eviction.LayoutReport{}, 1},
		"images on another":       {&eviction.LayoutReport{ImageFs: true}, 0},
		"only images on another":  {&eviction.LayoutReport{ImageFs: true, ContainerFs: true}, 0},
		"the layout is not known": {&eviction.LayoutReport{ImageFsErr: "no answer"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.layout = c.report
				v := d.addArray(eviction.NodeFsAvailable)
				v.frees, v.says = 40*gi, 50*gi
				n.start(diskSettings(t, kubeletDisks()))
				d.set(12 * gi) // enough for the kubelet's 10 %, not for the images' 15 %
				n.after(9 * time.Second)
				if got := n.did.count("reclaim acme.example/empty-cache for nodefs.available"); got != c.steps || c.steps == 1 && n.did.count("kill ") != 0 {
					t.Errorf("%q, want the step run %d times, and no pod to go where it is", n.did.story(), c.steps)
				}
			})
		})
	}
}

// A replay ran a vendor's step where it was looked at, and emptied the cache there.
func TestStepsOfPluginsRunOnlyWhereTheyMay(t *testing.T) {
	for because, runs := range map[string]int{"": 1, "it frees things here": 0} {
		t.Run(because, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				v := n.addVendor()
				v.frees = 1000
				n.options.SkipStepsBecause = because
				s := onRequest(ownSettings(t))
				s.Pacing = PacingKubelet
				n.run(s)
				v.set(spareSignal, 900)
				pass, err := n.loop.Synchronize(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if n.did.count("reclaim trim") != runs || n.did.count("kill ") != 1-runs {
					t.Errorf("%q, want %d runs of the step, and a kill only without", n.did.story(), runs)
				}
				if r := pass.Reclaim; len(r) != 1 || r[0].Step != "trim" || r[0].By != "nvme" || r[0].NotRun != because {
					t.Errorf("reclaim %+v, want trim of nvme, not run because %q", r, because)
				}
			})
		})
	}
}

// A custom signal that is low for good, or whose plugin is down, costs no pod that a
// step for the disk has saved.
func TestReclaimForADiskDoesNotWaitForOwnSignals(t *testing.T) {
	for name, down := range map[string]bool{"low for good": false, "down": true} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.frees["image-gc"] = 20 * gi
				v := n.addVendor()
				n.runtime.pods = nil // nobody can go for the drive
				n.start(settings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi", string(spareSignal): "10%"}}))
				v.set(spareSignal, 10)
				if down {
					n.plugins.down = map[eviction.Signal]error{spareSignal: errBroken}
					v.goes()
				}
				d.set(5 * gi)
				n.after(time.Minute)
				if n.did.count("reclaim image-gc") != 1 || n.loop.Snapshot().Time.IsZero() {
					t.Errorf("image-gc ran %d times, want once and to be enough: %q", n.did.count("reclaim image-gc"), n.did.story())
				}
			})
		})
	}
}

// Nor does it keep the steps of another vendor from running.
func TestAnOwnSignalThatIsLowForGoodLeavesOthersTheirTurn(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		first, second := n.newVendor(2, nvmePressure, spareSignal), n.newVendor(3, wearPressure, wearSignal)
		second.instance.Name = "wear"
		n.plugins.builtin = append(n.plugins.builtin, first.instance, second.instance)
		second.frees = 5000
		s := ownSettings(t)
		for i := range s.Thresholds {
			s.Thresholds[i].GracePeriod = 0
		}
		n.runtime.pods = nil
		n.start(s)
		first.set(spareSignal, 10)
		n.after(time.Minute)
		second.crosses(wearSignal, 50)
		n.after(s.MonitoringInterval)
		if got := n.did.count("reclaim trim for " + string(wearSignal)); got != 1 {
			t.Errorf("the step of the other ran %d times, want once: %q", got, n.did.story())
		}
	})
}
