package loop

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// A disk is a disk plugin in this process.
type disk struct {
	n *node

	mu        sync.Mutex
	available int64
	layout    *eviction.LayoutReport
	volumes   map[string]int64 // used bytes of the volume "data", by uid
	// frees is the amount that each step gives back, takes its duration.
	frees map[string]int64
	takes time.Duration
	fails error
	// afterGC replaces available, for its signals, once something was reclaimed.
	afterGC   map[eviction.Signal]int64
	reclaimed bool
	// late, if not zero, has what pods used come back so long after their end.
	late time.Duration
	// measures is the duration of a measurement.
	measures time.Duration
}

// addDisk gives the node a disk plugin with container-gc and image-gc, 100Gi with
// 50Gi available, everything on one filesystem.
func (n *node) addDisk() *disk {
	d := &disk{n: n, available: 50 * gi, layout: &eviction.LayoutReport{}, volumes: map[string]int64{}, frees: map[string]int64{}}
	steps := []eviction.ReclaimStep{{Name: "container-gc"}, {Name: "image-gc", Layouts: []eviction.Layout{eviction.LayoutShared}}}
	n.providers = append(n.providers, &registry.Instance{Name: "disk", Generation: 2, Plugin: &eviction.Plugin{
		Name: "disk", OwnsLayout: true, Observer: d, Measurer: d, Reclaimer: d,
		Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: steps}, {Signal: eviction.ContainerFsAvailable, ReclaimSteps: steps}, {Signal: eviction.ImageFsAvailable, ReclaimSteps: steps}},
	}})
	return d
}

func (d *disk) set(available int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.available = available
}

// Observe implements eviction.Observer.
func (d *disk) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	d.n.mu.Lock()
	defer d.n.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	reply := eviction.ObserveReply{Layout: d.layout}
	for _, s := range r.Signals {
		available := d.available
		if d.late > 0 {
			available += d.n.released(d.volumes, d.late)
		}
		if after, ok := d.afterGC[s]; ok && d.reclaimed {
			available = after
		}
		reply.Observations = append(reply.Observations, eviction.Observation{
			Signal: s, State: eviction.Observed, Available: available, Capacity: 100 * gi, Time: time.Now(),
		})
	}
	return reply, nil
}

// Measure implements eviction.Measurer.
func (d *disk) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	select {
	case <-time.After(d.measures):
	case <-ctx.Done():
		return ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range r.Pods {
		emit(eviction.Measurement{
			UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: d.volumes[p.UID]}},
			Volumes: []eviction.VolumeMeasurement{{Name: "data", UsedBytes: eviction.Some(d.volumes[p.UID])}},
		})
	}
	return nil
}

// Reclaim implements eviction.Reclaimer.
func (d *disk) Reclaim(ctx context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	d.n.locked("reclaim %s", r.Step)
	select {
	case <-time.After(d.takes):
	case <-ctx.Done():
		return eviction.Reclaimed{}, ctx.Err()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reclaimed = true
	d.available += d.frees[r.Step]
	return eviction.Reclaimed{Bytes: d.frees[r.Step]}, d.fails
}

// limitVolume gives a pod an emptyDir that may have so many bytes, and has.
func (n *node) limitVolume(d *disk, name string, limit, used int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range n.pods {
		if n.pods[i].Row.Name == name {
			n.pods[i].API = n.pods[i].API.DeepCopy() // a pod that has changed is another object
			n.pods[i].API.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
				EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: resource.NewQuantity(limit, resource.BinarySI)},
			}}}
			d.volumes[n.pods[i].Row.UID] = used
		}
	}
}

func diskSettings(t *testing.T, c policy.ThresholdConfig) Settings {
	s := settings(t, c)
	s.LocalStorageLimits = true
	return s
}

func hardDisk(value string) policy.ThresholdConfig {
	return policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": value, "memory.available": "1Gi"}}
}

func TestReclaimThatIsEnoughSparesThePods(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.frees["image-gc"] = 20 * gi
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(time.Minute)
		wantStory(t, n, "8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim container-gc", "8s reclaim image-gc")
	})
}

func TestAPodGoesWhenReclaimIsNotEnough(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.frees["image-gc"], d.fails = gi, errBroken
		d.volumes["uid-big"] = 10 * gi
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(9 * time.Second)
		wantStory(t, n, "8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim container-gc", "8s reclaim image-gc",
			"8s journal big", "8s event Evicted big", "8s kill big grace 1", "8s gone big")
	})
}

// The check after reclaim already has the thresholds that are derived in this
// pass, although the pass itself does not look at them.
func TestReclaimIsNotEnoughWhileADerivedThresholdIsMet(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout, d.available = &eviction.LayoutReport{ImageFs: true}, 5*gi
		d.volumes["uid-big"] = 10 * gi
		d.afterGC = map[eviction.Signal]int64{eviction.ImageFsAvailable: 50 * gi, eviction.ContainerFsAvailable: gi}
		n.onRequest = true
		s := diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "10Gi"}})
		n.run(s, rundir.State{})
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
		n.pods = nil
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(time.Minute)
		if got := n.count("reclaim "); got < 2 || got > 2*7 {
			t.Errorf("%d steps in a minute, want two each ten seconds", got)
		}
	})
}

// A pass that concludes nothing must not keep the host looking well.
func TestPassesThatFailDoNotCount(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout = &eviction.LayoutReport{ImageFsErr: "no such device"}
		s := diskSettings(t, hardDisk("10Gi"))
		s.LayoutOnce, s.MemoryNotifications = true, false
		n.run(s, rundir.State{})
		n.after(time.Minute)
		if got := n.loop.Snapshot().Time; !got.IsZero() {
			t.Errorf("a pass has concluded something at %v, want none", got)
		}
	})
}

func TestADryRunReclaimsNothing(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		s := diskSettings(t, hardDisk("10Gi"))
		s.DryRun = true
		last := n.record()
		n.run(s, rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(time.Minute)
		wantStory(t, n)
		if r := last(); len(r.Reclaim) != 2 || r.Reclaim[1].Step != "image-gc" || r.Reclaim[1].NotRun == "" {
			t.Errorf("the record has %+v, want both steps, and why they were not run", r.Reclaim)
		}
		if got := n.loop.Snapshot().Evictions; len(got) == 0 || got[0].State != victim.StateDryRun {
			t.Errorf("evictions = %+v, want one that was not made", got)
		}
	})
}

// Image GC may take minutes. Memory that runs out meanwhile must not wait for it.
func TestMemoryIsActedOnWhileTheDiskIsCleaned(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.takes = time.Minute
		d.frees["image-gc"] = 20 * gi
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(20 * time.Second)
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		wantStory(t, n, "8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim container-gc",
			"20s node event NodeHasInsufficientMemory", "20s node event EvictionThresholdMet", "20s journal big", "20s event Evicted big", "20s kill big grace 1", "20s gone big")
		n.after(3 * time.Minute)
		if got := n.count("reclaim "); got != 2 {
			t.Errorf("%d reclaim steps, want the two of one reclaim: %q", got, n.story())
		}
		if got := n.count("kill "); got != 1 {
			t.Errorf("%d kills, want the one for memory: %q", got, n.story())
		}
	})
}

func TestACustomStepThatIsEnoughSparesTheBuiltInOnes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.rankers = append(n.rankers, &registry.Instance{Name: "vendor", Generation: 3, Plugin: &eviction.Plugin{
			Name: "vendor", Reclaimer: reclaimer(func(r eviction.ReclaimRequest) (eviction.Reclaimed, error) {
				n.locked("reclaim %s", r.Step)
				d.set(30 * gi)
				return eviction.Reclaimed{Bytes: 25 * gi}, nil
			}),
			Signals: []eviction.SignalSpec{
				{Signal: eviction.NodeFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "drop-cache"}, {Name: "drop-more"}}},
				{Signal: eviction.ContainerFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "drop-cache"}, {Name: "drop-more"}}},
			},
		}})
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(time.Minute)
		wantStory(t, n, "8s node event NodeHasDiskPressure", "8s node event EvictionThresholdMet", "8s reclaim drop-cache")
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
		n.rankers = append(n.rankers, &registry.Instance{Name: "vendor", Generation: 3, Plugin: &eviction.Plugin{
			Name: "vendor", Reclaimer: reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) { return says, fails }),
			Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "drop-cache"}}}},
		}})
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		if got := n.loop.Snapshot().Reclaims; got != nil {
			t.Errorf("reclaims %+v before there was one", got)
		}
		// reported returns the reclaims without what is another one in each run.
		reported := func() string {
			reclaims := slices.Clone(n.loop.Snapshot().Reclaims)
			for i := range reclaims {
				if r := &reclaims[i]; r.Pass == 0 || r.Time.Before(n.start) || r.Time.After(time.Now()) {
					t.Errorf("pass %d at %v, want one since %v", r.Pass, r.Time, n.start)
				}
				reclaims[i].Pass, reclaims[i].Time = 0, time.Time{}
			}
			text, err := json.Marshal(reclaims)
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		d.set(5 * gi)
		n.after(time.Minute)
		const head = `[{"pass":0,"time":"0001-01-01T00:00:00Z","signal":"nodefs.available","steps":[`
		const gc = `{"step":"container-gc","by":"disk","bytesFreed":0,"inodesFreed":0,"tookSeconds":1.5},{"step":"image-gc","by":"disk","bytesFreed":21474836480,"inodesFreed":0,"tookSeconds":1.5}],"sufficed":true}]`
		if diff := cmp.Diff(head+`{"step":"drop-cache","by":"vendor","bytesFreed":7,"inodesFreed":3,"message":"dropped the oldest","tookSeconds":0},`+gc, reported()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// The next one takes its place, its errors are reported.
		says, fails = eviction.Reclaimed{}, errBroken
		d.set(5 * gi)
		n.after(time.Minute)
		if diff := cmp.Diff(head+`{"step":"drop-cache","by":"vendor","bytesFreed":0,"inodesFreed":0,"tookSeconds":0,"error":"broken"},`+gc, reported()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

type reclaimer func(eviction.ReclaimRequest) (eviction.Reclaimed, error)

func (f reclaimer) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return f(r)
}

func TestAPodOverItsOwnLimitGoesWithoutPressure(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.limitVolume(d, "small", 10*mi, 11*mi)
		n.limitVolume(d, "big", 10*mi, 10*mi)
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(5 * time.Second)
		wantStory(t, n, "0s journal small", "0s event Evicted small", "0s kill small grace 1", "0s gone small")
		if len(n.loop.Snapshot().Conditions) != 0 {
			t.Errorf("conditions = %v, want none for a limit of the pod's own", n.loop.Snapshot().Conditions)
		}
	})
}

// A slow walk of volumes must not hold up anything, and neither must its victim.
func TestLimitsAreCheckedBesideTheLoop(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.measures = 4 * time.Second
		n.limitVolume(d, "small", 10*mi, 11*mi)
		n.dies["uid-small"] = time.Second
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(3900 * time.Millisecond)
		n.set(gi / 2)
		n.wake()
		n.after(5 * time.Second)
		wantStory(t, n,
			"3.9s node event NodeHasInsufficientMemory", "3.9s node event EvictionThresholdMet", "3.9s journal big", "3.9s event Evicted big", "3.9s kill big grace 1", "3.9s gone big",
			"4s journal small", "4s event Evicted small", "4s kill small grace 1", "5s gone small")
	})
}

func TestAnUnknownLayoutLeavesTheDisksUntilItIsKnown(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available = gi
		d.layout = &eviction.LayoutReport{ImageFsErr: "no such device"}
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.after(9 * time.Second)
		if n.loop.Under(eviction.DiskPressure) || n.count("kill ") > 0 {
			t.Errorf("acted without knowing the layout: %q", n.story())
		}
		d.mu.Lock()
		d.layout = &eviction.LayoutReport{}
		d.mu.Unlock()
		n.after(10 * time.Second)
		if !n.loop.Under(eviction.DiskPressure) || n.loop.Snapshot().Layout != "shared" {
			t.Errorf("no pressure in layout %q, want it as soon as the layout is known", n.loop.Snapshot().Layout)
		}
	})
}

// A runtime that does not answer must not keep memory from being looked after.
func TestAnUnknownLayoutDoesNotHoldUpMemory(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout = &eviction.LayoutReport{ImageFsErr: "no such device"}
		s := diskSettings(t, hardDisk("10Gi"))
		s.MemoryNotifications = false
		n.run(s, rundir.State{})
		n.set(gi / 2)
		n.after(15 * time.Second)
		if n.count("kill big") != 1 {
			t.Errorf("story %q, want big killed", n.story())
		}
	})
}

// The kubelet's manager does, and with layout: kubelet so does evictd.
func TestAskedOnceAnUnknownLayoutEndsThePass(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.layout = &eviction.LayoutReport{ImageFsErr: "no such device"}
		n.available, n.onRequest = gi/2, true
		s := diskSettings(t, hardDisk("10Gi"))
		s.LayoutOnce = true
		n.run(s, rundir.State{})
		o, err := n.loop.Synchronize(t.Context())
		if err == nil || !strings.Contains(err.Error(), "no such device") || len(o.Evicted) > 0 {
			t.Errorf("outcome %+v, %v; want the error and nothing else", o, err)
		}
	})
}

func TestALayoutThatChangesBringsItsOwnThresholds(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		s := diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi", "imagefs.available": "20Gi"}})
		n.run(s, rundir.State{})
		n.after(time.Second)
		want := func(value string) {
			t.Helper()
			for _, st := range n.loop.Snapshot().Thresholds {
				if st.Signal == eviction.ContainerFsAvailable && st.Value == value {
					return
				}
			}
			t.Errorf("thresholds = %+v, want containerfs.available of %s", n.loop.Snapshot().Thresholds, value)
		}
		want("10Gi")
		d.mu.Lock()
		d.layout = &eviction.LayoutReport{ImageFs: true}
		d.mu.Unlock()
		n.after(10 * time.Second)
		want("20Gi")
	})
}

func TestSynchronizeDoesItAllBeforeItReturns(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.available = 5 * gi
		d.frees["image-gc"] = gi
		d.takes = 3 * time.Second
		n.dies["uid-big"] = 700 * time.Millisecond
		d.volumes["uid-big"] = 10 * gi
		n.onRequest = true
		s := diskSettings(t, hardDisk("10Gi"))
		s.Pacing = PacingKubelet
		n.run(s, rundir.State{})
		n.after(time.Minute)
		wantStory(t, n) // nobody asked
		n.start = time.Now()
		o, err := n.loop.Synchronize(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(o.Evicted) != 1 || o.Evicted[0].Pod.Row.Name != "big" || len(o.Reclaim) != 2 || o.ReclaimSufficed || o.Candidates[o.Order[0]].Usage != 10*gi {
			t.Errorf("outcome = %+v, want two steps that were not enough and then big", o)
		}
		wantStory(t, n, "0s node event NodeHasDiskPressure", "0s node event EvictionThresholdMet", "0s reclaim container-gc", "3s reclaim image-gc",
			"6s journal big", "6s event Evicted big", "6s kill big grace 1", "6.7s gone big")
		if err := n.loop.AwaitCleanup(t.Context(), o); err != nil || time.Since(n.start) != 7700*time.Millisecond {
			t.Errorf("clean-up took until %v (%v), want one look after a second", time.Since(n.start), err)
		}
	})
}

// The containers of a victim have ended, its volumes are still being removed: another
// pod must not go for space that is on its way back. Memory does not wait for that.
func TestTheNextDiskVictimWaitsForWhatTheLastOneFrees(t *testing.T) {
	for what, c := range map[string]struct {
		then func(*node, *disk)
		want []string
	}{
		"its volumes go and bring relief": {func(n *node, d *disk) { delete(n.volumes, "uid-big"); d.set(25 * gi) }, nil},
		"they go and bring nothing":       {func(n *node, _ *disk) { delete(n.volumes, "uid-big") }, []string{"30."}},
		"they go and relief comes later": {func(n *node, d *disk) {
			delete(n.volumes, "uid-big")
			time.AfterFunc(8*time.Second, func() { d.set(25 * gi) })
		}, nil},
		"they go and do not suffice": {func(n *node, d *disk) { delete(n.volumes, "uid-big"); d.set(-16 * gi) }, []string{"21."}},
		"nobody removes them":        {func(*node, *disk) {}, []string{"38.1s"}},
		"memory runs out":            {func(n *node, _ *disk) { n.available = gi / 2 }, []string{"25.1s"}},
	} {
		t.Run(what, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.addDisk()
				d.volumes["uid-big"] = 20 * gi
				n.dies["uid-big"] = 100 * time.Millisecond
				n.volumes = map[string]bool{"uid-big": true}
				s := diskSettings(t, hardDisk("10Gi"))
				s.MonitoringInterval = 9 * time.Second
				n.run(s, rundir.State{})
				n.settle()
				d.set(5 * gi)
				n.after(20 * time.Second)
				wantKills(t, n, "7s kill big grace 1")
				n.mu.Lock()
				c.then(n, d)
				n.mu.Unlock()
				n.after(30 * time.Second)
				kills := slices.DeleteFunc(n.story(), func(s string) bool { return !strings.Contains(s, " kill small") })
				if len(kills) != len(c.want) || len(kills) > 0 && !strings.HasPrefix(kills[0], c.want[0]) {
					t.Errorf("then %q, want %q", kills, c.want)
				}
			})
		})
	}
}

// Memory that runs out does not wait until it is known what pods use of the disk.
func TestMemoryIsActedOnWhileTheDiskIsMeasured(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.measures = 4 * time.Second
		d.volumes["uid-small"] = 20 * gi
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(9 * time.Second)
		wantKills(t, n)
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		wantKills(t, n, "9s kill big grace 1")
		n.after(10 * time.Second)
		wantKills(t, n, "9s kill big grace 1", "12.25s kill small grace 1")
	})
}

// A decision is made again when it is known which pod is to go.
func TestNobodyGoesForADiskThatHasRoomAgain(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.measures = 4 * time.Second
		s := diskSettings(t, hardDisk("10Gi"))
		s.MonitoringInterval = 3 * time.Second
		n.run(s, rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(3500 * time.Millisecond)
		d.set(50 * gi)
		n.after(20 * time.Second)
		wantKills(t, n)
	})
}

// A host that is replaced while a victim's volumes are being removed leaves the
// victim to the next one: else that would take another.
func TestAVictimStaysInTheJournalAsLongAsItsVolumes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		d.volumes["uid-big"] = 20 * gi
		n.volumes = map[string]bool{"uid-big": true}
		n.run(diskSettings(t, hardDisk("10Gi")), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(15 * time.Second)
		n.mu.Lock()
		_, kept := n.journal["uid-big"]
		delete(n.volumes, "uid-big")
		n.mu.Unlock()
		n.after(2 * time.Second)
		n.mu.Lock()
		_, still := n.journal["uid-big"]
		n.mu.Unlock()
		if !kept || still {
			t.Errorf("in the journal while its volumes are there: %v, afterwards: %v; want true and false", kept, still)
		}
	})
}

// A plugin was replaced while a vendor's step ran. Its own step was asked of the process
// that had ended, and a pod went with the images untouched.
func TestStepsAreRunByThePluginThatServesThen(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		replaced := n.providers[len(n.providers)-1]
		old, successor := *replaced.Plugin, *replaced.Plugin
		old.Reclaimer = reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			return eviction.Reclaimed{}, eviction.ErrUnavailable
		})
		successor.Reclaimer = reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			d.set(50 * gi)
			return eviction.Reclaimed{Bytes: 45 * gi}, nil
		})
		replaced.Plugin = &old
		n.rankers = append(n.rankers, &registry.Instance{Name: "vendor", Generation: 3, Plugin: &eviction.Plugin{
			Name: "vendor", Reclaimer: reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.providers[len(n.providers)-1] = &registry.Instance{Name: "disk", Generation: 9, Plugin: &successor}
				return eviction.Reclaimed{}, nil
			}),
			Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "drop-cache"}}}},
		}})
		d.volumes["uid-big"] = 10 * gi
		n.run(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi"}}), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(30 * time.Second)
		if got := n.kills(); len(got) != 0 {
			t.Errorf("%q, want nobody: the images are enough", got)
		}
	})
}

// Steps that were still to come ran although a reload had made it a dry run.
func TestADryRunEndsReclaimThatIsUnderWay(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.addDisk()
		n.rankers = append(n.rankers, &registry.Instance{Name: "vendor", Generation: 3, Plugin: &eviction.Plugin{
			Name: "vendor", Reclaimer: reclaimer(func(eviction.ReclaimRequest) (eviction.Reclaimed, error) {
				time.Sleep(5 * time.Second)
				return eviction.Reclaimed{}, nil
			}),
			Signals: []eviction.SignalSpec{{Signal: eviction.NodeFsAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "drop-cache"}}}},
		}})
		d.volumes["uid-big"] = 10 * gi
		s := diskSettings(t, hardDisk("10Gi"))
		n.run(s, rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(10 * time.Second)
		n.mu.Lock()
		n.did = nil
		n.mu.Unlock()
		n.after(time.Second)
		s.DryRun = true
		if err := n.loop.Apply(s); err != nil {
			t.Fatal(err)
		}
		n.after(30 * time.Second)
		if n.count("reclaim ")+n.count("kill ") > 0 {
			t.Errorf("%q, want nothing", n.story())
		}
	})
}
