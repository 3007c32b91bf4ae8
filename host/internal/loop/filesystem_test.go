package loop

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// An arrayVendor is a plugin for the storage that images are on, beside the built-in disk
// plugin: it knows one signal and refuses all others.
type arrayVendor struct {
	t      *testing.T
	n      *node
	d      *disk
	serves eviction.Signal
	// frees is the amount that emptying its cache gives.
	frees int64
	// ranks: the pod that it wants to go.
	ranks string
	// says is the amount that it observes, 0 for that of the disk.
	says int64
}

// addArray gives the node a plugin that offers everything for one signal.
func (n *node) addArray(d *disk, serves eviction.Signal) *arrayVendor {
	v := &arrayVendor{t: n.t, n: n, d: d, serves: serves}
	n.rankers = append(n.rankers, &registry.Instance{Name: "acme-images", Generation: 7, Plugin: &eviction.Plugin{
		Name: "acme-images", Observer: v, Measurer: v, Ranker: v, Reclaimer: v,
		Signals: []eviction.SignalSpec{{Signal: serves, ReclaimSteps: []eviction.ReclaimStep{{Name: "acme.example/empty-cache"}}}},
	}})
	return v
}

func (v *arrayVendor) knows(s eviction.Signal) {
	if s != v.serves {
		v.t.Errorf("the plugin is asked about %s, and offers %s", s, v.serves)
	}
}

func (v *arrayVendor) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	if len(r.Signals) != 1 {
		v.t.Errorf("observe %v at once", r.Signals)
	}
	v.knows(r.Signals[0])
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	available := v.d.available
	if v.says != 0 {
		available = v.says
	}
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: v.serves, State: eviction.Observed, Available: available, Capacity: 100 * gi, Time: time.Now(),
	}}}, nil
}

func (v *arrayVendor) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	v.knows(r.Signals[0])
	for _, p := range r.Pods {
		m := eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: 1}}}
		if p.Name == v.ranks {
			m.Usage[0].Value = 7
		}
		emit(m)
	}
	return nil
}

func (v *arrayVendor) Rank(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	v.knows(r.Signal)
	var order []eviction.Ranked
	for _, c := range r.Candidates {
		if c.Measurement.UsageFor(v.serves) == 7 {
			order = append(order, eviction.Ranked{UID: c.Pod.UID, Reason: "lives on the array"})
		}
	}
	return order, nil
}

func (v *arrayVendor) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	v.knows(r.Signal)
	v.n.locked("reclaim %s for %s", r.Step, r.Signal)
	v.d.mu.Lock()
	defer v.d.mu.Unlock()
	released := v.frees
	v.d.available += released
	v.frees = 0
	return eviction.Reclaimed{Bytes: released}, nil
}

// kubeletDisks returns the kubelet's defaults for disks.
func kubeletDisks() policy.ThresholdConfig {
	return policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10%", "imagefs.available": "15%"}}
}

// forDisks does as addDisk in a layout.
func (n *node) forDisks(r *eviction.LayoutReport) *disk {
	d := n.addDisk()
	d.layout = r
	return d
}

var layoutReports = map[string]*eviction.LayoutReport{
	"shared":      {},
	"imagefs":     {ImageFs: true},
	"containerfs": {ImageFs: true, ContainerFs: true},
}

// The threshold for writable layers follows from that of the images and sorts before
// it. Pods went one after the other, the vendor's cache untouched, because the
// built-in plugin alone was asked for it.
func TestTheVendorOfTheImagesIsAskedWhateverNameTheirFilesystemHas(t *testing.T) {
	for name, report := range layoutReports {
		config := kubeletDisks()
		if report.ContainerFs { // the kubelet's is another filesystem, which is not full
			delete(config.Hard, "nodefs.available")
		}
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.forDisks(report)
				v := n.addArray(d, eviction.ImageFsAvailable)
				v.frees = 40 * gi
				n.run(diskSettings(t, config), rundir.State{})
				n.settle()
				d.set(5 * gi)
				n.after(time.Minute)
				if got := n.count("reclaim acme.example/empty-cache for imagefs.available"); got != 1 {
					t.Errorf("the cache was emptied %d times, want once: %q", got, n.story())
				}
				if got := n.count("kill "); got != 0 {
					t.Errorf("%d pods went, want none: the cache was enough: %q", got, n.story())
				}
			})
		})
	}
}

// The twin: the cache is not enough, and one pod goes, the one the vendor says.
func TestOnePodGoesWhenTheVendorsCacheIsNotEnough(t *testing.T) {
	for name, report := range layoutReports {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.forDisks(report)
				v := n.addArray(d, eviction.ImageFsAvailable)
				v.frees, v.ranks = gi, "small"
				d.volumes["uid-big"] = 10 * gi
				settings := diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "15%"}})
				n.run(settings, rundir.State{})
				n.settle()
				d.set(5 * gi)
				n.after(8500 * time.Millisecond)
				d.set(50 * gi) // what the victim had
				n.after(time.Minute)
				if got := n.count("kill "); got != 1 || n.count("kill small") != 1 {
					t.Errorf("%q, want the vendor's choice to go and no other", n.story())
				}
				evictions := n.loop.Snapshot().Evictions
				if len(evictions) != 1 || evictions[0].Ranker != "acme-images" || evictions[0].RankReason != "lives on the array" {
					t.Errorf("evictions %+v, want one, ranked by the vendor by its own figures", evictions)
				}
			})
		})
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
				d := n.forDisks(c.report)
				v := n.addArray(d, eviction.NodeFsAvailable)
				v.frees, v.says = 40*gi, 50*gi
				n.run(diskSettings(t, kubeletDisks()), rundir.State{})
				n.settle()
				d.set(12 * gi) // enough for the kubelet's 10 %, not for the images' 15 %
				n.after(9 * time.Second)
				if got := n.count("reclaim acme.example/empty-cache for nodefs.available"); got != c.steps {
					t.Errorf("the step ran %d times, want %d: %q", got, c.steps, n.story())
				}
				if killed := n.count("kill "); c.steps == 1 && killed != 0 {
					t.Errorf("%q, want no pod to go", n.story())
				}
			})
		})
	}
}

// What the vendor sees of the images' filesystem holds for writable layers on it: it
// would else be acted on by another's figure.
func TestWritableLayersAreSeenByWhoSeesTheirFilesystem(t *testing.T) {
	for name, c := range map[string]struct {
		report *eviction.LayoutReport
		by     string
	}{
		"imagefs":     {&eviction.LayoutReport{ImageFs: true}, "acme-images"},
		"shared":      {&eviction.LayoutReport{}, "disk"},
		"containerfs": {&eviction.LayoutReport{ImageFs: true, ContainerFs: true}, "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				d := n.forDisks(c.report)
				n.addArray(d, eviction.ImageFsAvailable)
				n.run(diskSettings(t, kubeletDisks()), rundir.State{})
				n.after(15 * time.Second)
				seen := map[eviction.Signal]string{}
				for _, s := range n.loop.Snapshot().Signals {
					seen[s.Signal] = s.ObservedBy
				}
				if seen[eviction.ImageFsAvailable] != "acme-images" || seen[eviction.NodeFsAvailable] != "disk" || seen[eviction.ContainerFsAvailable] != c.by {
					t.Errorf("seen by %v, want writable layers seen by %s", seen, c.by)
				}
			})
		})
	}
}

// When the vendor is silent the next in line sees the same filesystem under its own name.
func TestTheNextInLineSeesTheFilesystemWhenTheVendorDoesNot(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.forDisks(&eviction.LayoutReport{ImageFs: true})
		n.addArray(d, eviction.ImageFsAvailable)
		n.rankers[0].Plugin.Observer = broken{}
		n.rankers[0].Plugin.Measurer = broken{}
		d.volumes["uid-big"] = 10 * gi
		n.run(diskSettings(t, policy.ThresholdConfig{Hard: map[string]string{"imagefs.available": "15%"}}), rundir.State{})
		n.settle()
		d.set(5 * gi)
		n.after(9 * time.Second)
		if n.count("kill big") != 1 {
			t.Errorf("%q, want the eviction to go on without the vendor's figures", n.story())
		}
	})
}

type broken struct{}

func (broken) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, errBroken
}

func (broken) Measure(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error {
	return errBroken
}

// Without the built-in plugin the thresholds for writable layers are the vendor's all the same.
func TestWritableLayersNeedNoObserverOfTheirOwn(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		d := n.forDisks(&eviction.LayoutReport{ImageFs: true})
		n.addArray(d, eviction.ImageFsAvailable)
		builtin := n.providers[1].Plugin
		builtin.Signals = slices.DeleteFunc(builtin.Signals, func(s eviction.SignalSpec) bool { return s.Signal != eviction.NodeFsAvailable })
		n.run(diskSettings(t, kubeletDisks()), rundir.State{})
		n.after(15 * time.Second)
		for _, s := range n.loop.Snapshot().Thresholds {
			if s.Unobserved {
				t.Errorf("%s has no effect, want the vendor's figure to count", s.Signal)
			}
		}
	})
}
