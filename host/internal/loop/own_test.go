package loop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/decision"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	spareSignal  eviction.Signal    = "acme.example/nvme.spare"
	wearSignal   eviction.Signal    = "acme.example/nvme.wear"
	nvmePressure eviction.Condition = "acme.example/NVMePressure"
	wearPressure eviction.Condition = "acme.example/WearPressure"
)

// A vendor is a plugin in this process that brings signals of its own.
type vendor struct {
	n        *node
	instance *registry.Instance

	mu        sync.Mutex
	available map[eviction.Signal]int64
	frees     int64
	// measures is the duration of a measurement.
	measures time.Duration
	wake     func(eviction.Wake)
	watched  []eviction.WatchThreshold
}

func definition(c eviction.Condition) *eviction.Definition {
	return &eviction.Definition{Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/nvme-spare", Condition: c}
}

// newVendor makes a plugin that is not there yet. Its signals raise c.
func (n *node) newVendor(generation uint64, c eviction.Condition, signals ...eviction.Signal) *vendor {
	v := &vendor{n: n, available: map[eviction.Signal]int64{}}
	p := &eviction.Plugin{Name: "nvme", Observer: v, Measurer: v, Watcher: v, Reclaimer: v, Ranker: ranker(v.rank)}
	for _, s := range signals {
		v.available[s] = 5000
		p.Signals = append(p.Signals, eviction.SignalSpec{Signal: s, Definition: definition(c), ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}}})
	}
	v.instance = &registry.Instance{Name: "nvme", Generation: generation, Plugin: p}
	return v
}

// comes has the plugin run, in the place of a former one.
func (v *vendor) comes() {
	v.goes()
	v.n.providers = append(v.n.providers, v.instance)
	v.n.changed <- struct{}{}
	v.n.after(0)
}

// goes removes it.
func (v *vendor) goes() {
	v.n.providers = slices.DeleteFunc(v.n.providers, func(i *registry.Instance) bool { return i.Name == "nvme" })
	select {
	case v.n.changed <- struct{}{}:
	default:
	}
	v.n.after(0)
}

func (v *vendor) set(s eviction.Signal, available int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.available[s] = available
}

func (v *vendor) crosses(s eviction.Signal, available int64) {
	v.set(s, available)
	v.mu.Lock()
	wake := v.wake
	v.mu.Unlock()
	wake(eviction.Wake{Signal: s, Cause: "test"})
	v.n.after(0)
}

// Observe implements eviction.Observer.
func (v *vendor) Observe(_ context.Context, r eviction.ObserveRequest) (reply eviction.ObserveReply, _ error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range r.Signals {
		v.n.locked("look at %s", s)
		reply.Observations = append(reply.Observations, eviction.Observation{
			Signal: s, State: eviction.Observed, Available: v.available[s], Capacity: 10_000, Time: time.Now(),
		})
	}
	return reply, nil
}

// Measure implements eviction.Measurer: small uses more of it.
func (v *vendor) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	select {
	case <-time.After(v.measures):
	case <-ctx.Done():
		return ctx.Err()
	}
	for i, p := range r.Pods {
		emit(eviction.Measurement{UID: p.UID, State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: int64(100 - i)}}})
	}
	return nil
}

// Watch implements eviction.Watcher.
func (v *vendor) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	v.mu.Lock()
	v.wake, v.watched = wake, r.Thresholds
	v.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

// rank has the last one of the pods go first.
func (v *vendor) rank(r eviction.RankRequest) ([]eviction.Ranked, error) {
	if r.Unit != "blocks" {
		return nil, errors.New("unit " + string(r.Unit))
	}
	var out []eviction.Ranked
	for _, c := range slices.Backward(r.Candidates) {
		out = append(out, eviction.Ranked{UID: c.Pod.UID, Reason: "wears most"})
	}
	return out, nil
}

// Reclaim implements eviction.Reclaimer.
func (v *vendor) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	v.n.locked("reclaim %s for %s", r.Step, r.Signal)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.available[r.Signal] += v.frees
	return eviction.Reclaimed{Bytes: v.frees}, nil
}

// ownSettings have a hard threshold of 10% for spare, a soft one of 100 for wear
// and 1Gi of memory.
func ownSettings(t *testing.T) Settings {
	t.Helper()
	thresholds, err := policy.ParseThresholds(policy.ThresholdConfig{
		Hard:            map[string]string{"memory.available": "1Gi", string(spareSignal): "10%"},
		Soft:            map[string]string{string(wearSignal): "100"},
		SoftGracePeriod: map[string]string{string(wearSignal): "4s"},
	}, spareSignal, wearSignal)
	if err != nil {
		t.Fatal(err)
	}
	s := settings(t, hard("1Gi"))
	s.Thresholds = thresholds
	return s
}

func (n *node) thresholdOf(s eviction.Signal) decision.Threshold {
	for _, th := range n.loop.Snapshot().Thresholds {
		if th.Signal == s {
			return th
		}
	}
	n.t.Fatalf("no threshold of %s in the status", s)
	return decision.Threshold{}
}

func TestAnOwnSignalIsActedOnAtOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		v.frees = 10
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		n.after(3 * time.Second)
		v.crosses(spareSignal, 900)
		n.after(time.Second)
		got := slices.DeleteFunc(n.story(), func(s string) bool {
			return strings.Contains(s, " look at ")
		})
		want := []string{
			"3s node event NodeHasNVMePressure", "3s node event EvictionThresholdMet", "3s reclaim trim for acme.example/nvme.spare",
			"3s journal big", "3s event Evicted big", "3s kill big grace 1", "3s gone big",
		}
		if !slices.Equal(got, want) {
			t.Errorf("story %q, want %q", got, want)
		}
		e := n.loop.Snapshot().Evictions[0]
		if want := "The node was low on resource: acme.example/nvme-spare. Threshold quantity: 1k, available: 900. "; e.Message != want || e.Signal != spareSignal {
			t.Errorf("message %q of %s, want %q", e.Message, e.Signal, want)
		}
		if e.Ranker != "nvme" || e.RankReason != "wears most" {
			t.Errorf("ranked by %q, because %q", e.Ranker, e.RankReason)
		}
		if !n.loop.Under(nvmePressure) || n.loop.Under(eviction.MemoryPressure) {
			t.Errorf("conditions %v", n.loop.Snapshot().Conditions)
		}
	})
}

func TestAReclaimStepOfAnOwnSignalMaySufficeForIt(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		v.frees = 1000
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(spareSignal, 900)
		n.after(time.Minute)
		if kills, steps := n.count("kill "), n.count("reclaim trim"); kills != 0 || steps != 1 {
			t.Errorf("%d kills and %d steps, want none and one: %q", kills, steps, n.story())
		}
	})
}

// A replay ran a vendor's step where it was looked at, and emptied the cache there.
func TestStepsOfPluginsRunOnlyWhereTheyMay(t *testing.T) {
	for name, c := range map[string]struct {
		because     string
		runs, kills int
	}{"allowed": {"", 1, 0}, "not allowed": {"it frees things here", 0, 1}} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
				n.providers = append(n.providers, v.instance)
				v.frees = 1000
				n.onRequest, n.skipSteps = true, c.because
				s := ownSettings(t)
				s.Pacing = PacingKubelet
				n.run(s, rundir.State{})
				v.set(spareSignal, 900)
				pass, err := n.loop.Synchronize(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if runs, kills := n.count("reclaim trim"), n.count("kill "); runs != c.runs || kills != c.kills {
					t.Errorf("%d runs of the step and %d kills, want %d and %d: %q", runs, kills, c.runs, c.kills, n.story())
				}
				if r := pass.Reclaim; len(r) != 1 || r[0].Step != "trim" || r[0].By != "nvme" || r[0].NotRun != c.because {
					t.Errorf("reclaim %+v, want trim of nvme, not run because %q", r, c.because)
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
				s := ownSettings(t)
				thresholds, err := policy.ParseThresholds(policy.ThresholdConfig{Hard: map[string]string{"nodefs.available": "10Gi", string(spareSignal): "10%"}}, spareSignal)
				if err != nil {
					t.Fatal(err)
				}
				s.Thresholds = thresholds
				v := n.newVendor(3, nvmePressure, spareSignal)
				n.providers = append(n.providers, v.instance)
				n.pods = nil // nobody can go for the drive
				n.run(s, rundir.State{})
				n.settle()
				v.set(spareSignal, 10)
				if down {
					n.down = map[eviction.Signal]error{spareSignal: errBroken}
					v.goes()
				}
				d.set(5 * gi)
				n.after(time.Minute)
				if n.count("reclaim image-gc") != 1 || n.loop.Snapshot().Time.IsZero() {
					t.Errorf("image-gc ran %d times, want once and to be enough: %q", n.count("reclaim image-gc"), n.story())
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
		n.providers = append(n.providers, first.instance, second.instance)
		second.frees = 5000
		s := ownSettings(t)
		for i := range s.Thresholds {
			s.Thresholds[i].GracePeriod = 0
		}
		n.pods = nil
		n.run(s, rundir.State{})
		n.settle()
		first.set(spareSignal, 10)
		n.after(time.Minute)
		second.crosses(wearSignal, 50)
		n.after(s.MonitoringInterval)
		if got := n.count("reclaim trim for " + string(wearSignal)); got != 1 {
			t.Errorf("the step of the other ran %d times, want once: %q", got, n.story())
		}
	})
}

// A wake looks at the signals that raise the same condition, and at no others.
func TestOwnSignalsWakeTheirOwnFamily(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		n.after(time.Second)
		v.crosses(spareSignal, 4000)
		if own, shared, memory := n.count("1s look at "+string(spareSignal)), n.count("1s look at "+string(wearSignal)), n.count("1s observe"); own != 1 || shared != 1 || memory != 0 {
			t.Errorf("after the wake %d looks at its signal, %d at the other of its condition, %d at memory; want 1, 1, 0", own, shared, memory)
		}
		n.after(time.Second)
		n.wake()
		n.after(0)
		if own, memory := n.count("2s look at"), n.count("2s observe"); own != 0 || memory != 1 {
			t.Errorf("after memory's wake %d looks at custom signals, %d at memory; want 0 and 1", own, memory)
		}
		if len(v.watched) != 2 {
			t.Errorf("watched are %v, want both signals in one stream", v.watched)
		}
	})
}

func TestASoftThresholdOfAnOwnSignal(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(wearSignal, 99)
		n.after(3999 * time.Millisecond)
		if n.count("kill ") != 0 {
			t.Fatalf("a pod went before the grace period was over: %q", n.story())
		}
		n.after(time.Millisecond)
		if n.count("4s kill big grace 120") != 1 {
			t.Errorf("want big killed after 4 s, with the longest grace: %q", n.story())
		}
	})
}

func TestAPluginWithAnOwnSignalComesAndGoes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		s := ownSettings(t)
		memory := soft("1Gi", "30m") // a timer that must run on through all of it
		thresholds, err := policy.ParseThresholds(memory)
		if err != nil {
			t.Fatal(err)
		}
		s.Thresholds = append(thresholds, s.Thresholds[0], s.Thresholds[2])
		n.set(gi / 2)
		n.run(s, rundir.State{})
		since := n.thresholdOf(eviction.MemoryAvailable).Since
		if own := n.thresholdOf(eviction.MemoryAvailable).Custom; own != nil {
			t.Errorf("memory.available is shown as a custom signal: %+v", own)
		}
		for _, own := range []eviction.Signal{spareSignal, wearSignal} {
			if th := n.thresholdOf(own); !th.Unobserved || th.Since != nil || *th.Custom != (decision.CustomSignal{}) {
				t.Errorf("before the plugin came: %+v", th)
			}
		}
		n.after(time.Minute)
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		v.set(wearSignal, 50)
		v.comes()
		if th := n.thresholdOf(wearSignal); th.Unobserved || th.Since == nil || th.Custom.Condition != nvmePressure || !n.loop.Under(nvmePressure) {
			t.Errorf("when it has come: %+v, conditions %v", th, n.loop.Snapshot().Conditions)
		}
		n.after(time.Second)
		v.goes()
		if th := n.thresholdOf(wearSignal); !th.Unobserved || th.Since != nil {
			t.Errorf("when it has gone: %+v", th)
		}
		n.after(s.TransitionPeriod - 2*time.Second)
		if !n.loop.Under(nvmePressure) {
			t.Error("its condition did not last for the transition period")
		}
		n.after(s.MonitoringInterval + 2*time.Second)
		if n.loop.Under(nvmePressure) || n.count("event NodeHasNoNVMePressure") != 1 {
			t.Errorf("conditions %v after the transition period, events %q", n.loop.Snapshot().Conditions, n.story())
		}
		if n.count("kill ") != 0 {
			t.Errorf("the grace period ran on without the plugin: %q", n.story())
		}
		v.comes()
		n.after(3 * time.Second)
		if n.count("kill ") != 0 {
			t.Error("the grace period did not begin anew")
		}
		if now := n.thresholdOf(eviction.MemoryAvailable).Since; since == nil || now == nil || !now.Equal(*since) {
			t.Errorf("memory is low since %v, was since %v", now, since)
		}
		n.after(2 * time.Second)
		if n.count("kill big") != 1 {
			t.Errorf("nobody went when the grace period was over: %q", n.story())
		}
	})
}

// What a plugin was to observe is unknown while it is down: nothing is forgotten.
func TestAPluginThatIsDownKeepsItsCondition(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(wearSignal, 50)
		n.down = map[eviction.Signal]error{spareSignal: errBroken, wearSignal: errBroken}
		v.goes()
		n.after(time.Hour)
		if th := n.thresholdOf(wearSignal); !n.loop.Under(nvmePressure) || th.Since == nil || !th.Unobserved {
			t.Errorf("%+v, conditions %v", th, n.loop.Snapshot().Conditions)
		}
		n.down = nil
		v.goes()
		n.after(time.Hour)
		if n.loop.Under(nvmePressure) {
			t.Error("the condition stays when the plugin is removed for good")
		}
	})
}

func TestAPluginThatDefinesItsSignalAnew(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		old := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, old.instance)
		s := ownSettings(t)
		n.run(s, rundir.State{})
		n.settle()
		old.crosses(wearSignal, 50)
		n.after(3 * time.Second)
		fresh := n.newVendor(3, wearPressure, spareSignal, wearSignal)
		fresh.set(wearSignal, 50)
		fresh.comes()
		if c := n.loop.Snapshot().Conditions; !slices.Equal(c, []eviction.Condition{nvmePressure, wearPressure}) {
			t.Errorf("conditions %v, want the former one until it ends and the new one", c)
		}
		n.after(3999 * time.Millisecond)
		if n.count("kill ") != 0 {
			t.Errorf("the grace period did not begin anew: %q", n.story())
		}
		n.after(2 * time.Millisecond)
		if n.count("kill big") != 1 {
			t.Errorf("nobody went when it was over: %q", n.story())
		}
		fresh.crosses(wearSignal, 5000)
		n.after(s.TransitionPeriod + s.MonitoringInterval)
		if c := n.loop.Snapshot().Conditions; len(c) != 0 {
			t.Errorf("conditions %v are left", c)
		}
	})
}

// Memory does not wait for what a vendor's plugin takes its time to find out.
func TestASlowVendorHoldsUpNobodyElse(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		v.measures = time.Hour // the call itself has no deadline here
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(spareSignal, 1)
		n.after(time.Second)
		n.set(gi / 2)
		n.wake()
		n.after(time.Second)
		if n.count("1s kill big") != 1 {
			t.Errorf("nobody went for memory: %q", n.story())
		}
	})
}

// A condition of the run directory ends although nobody brings its signal any more.
func TestARestartedHostEndsTheConditionOfAPluginThatIsGone(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		s := ownSettings(t)
		n.run(s, rundir.State{Conditions: map[eviction.Condition]time.Time{nvmePressure: time.Now().Add(-time.Minute)}})
		if !n.loop.Under(nvmePressure) {
			t.Error("the condition is gone within the transition period")
		}
		n.after(s.TransitionPeriod - time.Minute + s.MonitoringInterval)
		if n.loop.Under(nvmePressure) {
			t.Error("the condition stays for longer than the transition period")
		}
	})
}

// Conditions end although a reload has left no threshold at all.
func TestAReloadWithoutThresholdsEndsConditions(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		s := ownSettings(t)
		n.run(s, rundir.State{})
		n.settle()
		v.crosses(wearSignal, 50)
		s.Thresholds = nil
		if err := n.loop.Apply(s); err != nil {
			t.Fatal(err)
		}
		n.after(s.TransitionPeriod - time.Second)
		if !n.loop.Under(nvmePressure) {
			t.Error("the condition is gone within the transition period")
		}
		n.after(s.MonitoringInterval + time.Second)
		if n.loop.Under(nvmePressure) || n.count("event NodeHasNoNVMePressure") != 1 {
			t.Errorf("the condition stays: %q", n.story())
		}
	})
}

// A reload keeps what plugins have said.
func TestAReloadKeepsDefinitions(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.newVendor(2, nvmePressure, spareSignal, wearSignal)
		n.providers = append(n.providers, v.instance)
		n.run(ownSettings(t), rundir.State{})
		n.settle()
		v.crosses(wearSignal, 50)
		n.after(time.Second)
		again := ownSettings(t)
		again.MonitoringInterval = time.Minute
		if err := n.loop.Apply(again); err != nil {
			t.Fatal(err)
		}
		n.after(3 * time.Second)
		if n.count("4s kill big") != 1 {
			t.Errorf("the reload broke the grace period: %q", n.story())
		}
	})
}
