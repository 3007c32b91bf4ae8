package loop

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/shared/eviction"
)

// bothOf returns settings with hard thresholds for memory and for the vendor's signal.
func bothOf(t *testing.T, own policy.ThresholdConfig) Settings {
	s := settings(t, hard("1Gi"))
	more, err := policy.ParseThresholds(own, spareSignal)
	if err != nil {
		t.Fatal(err)
	}
	s.Thresholds = append(s.Thresholds, more...)
	return s
}

var hardSpare = policy.ThresholdConfig{Hard: map[string]string{string(spareSignal): "100"}}

// A pod that memory had taken while a custom signal's ranking ran went twice.
func TestAPodThatWentMeanwhileIsNotEvictedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("other", gi)
		n.addPod("victim", 2*gi)
		v := n.newVendor(1, nvmePressure, spareSignal)
		v.instance.Plugin.Reclaimer = nil
		v.instance.Plugin.Signals[0].ReclaimSteps = nil
		v.measures = 3 * time.Second
		n.run(bothOf(t, hardSpare), rundir.State{})
		v.comes()
		n.settle()
		v.crosses(spareSignal, 50)
		n.after(100 * time.Millisecond)
		n.set(gi / 2)
		n.wakes[0](eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "test"})
		n.after(10 * time.Second)
		if got := n.count("kill victim"); got != 1 {
			t.Errorf("killed %d times: %v", got, n.story())
		}
	})
}

// A soft threshold that was satisfied in between evicted within its new grace period.
func TestASoftThresholdSatisfiedMeanwhileBeginsItsGraceAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("other", gi)
		n.addPod("victim", 2*gi)
		v := n.newVendor(1, nvmePressure, spareSignal)
		v.instance.Plugin.Reclaimer = nil
		v.instance.Plugin.Signals[0].ReclaimSteps = nil
		v.measures = 4 * time.Second
		n.run(bothOf(t, policy.ThresholdConfig{Soft: map[string]string{string(spareSignal): "100"}, SoftGracePeriod: map[string]string{string(spareSignal): "30s"}}), rundir.State{})
		v.comes()
		n.settle()
		v.crosses(spareSignal, 50)
		n.after(31 * time.Second)
		t.Log(n.loop.Snapshot().Thresholds)
		v.crosses(spareSignal, 500)
		n.after(500 * time.Millisecond)
		t.Log(n.loop.Snapshot().Thresholds)
		v.crosses(spareSignal, 50)
		n.after(500 * time.Millisecond)
		t.Log(n.loop.Snapshot().Thresholds)
		n.after(10 * time.Second)
		if got := n.count("kill "); got != 0 {
			t.Errorf("killed %d within the new grace period: %v", got, n.story())
		}
	})
}

// A figure that had become unknown while pods were ranked counted as it was before.
func TestASignalUnknownMeanwhileEvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.addPod("other", gi)
		n.addPod("victim", 2*gi)
		v := n.newVendor(1, nvmePressure, spareSignal)
		v.instance.Plugin.Reclaimer = nil
		v.instance.Plugin.Signals[0].ReclaimSteps = nil
		v.measures = 4 * time.Second
		n.run(bothOf(t, hardSpare), rundir.State{})
		v.comes()
		n.settle()
		v.crosses(spareSignal, 50)
		n.after(100 * time.Millisecond)
		v.instance.Plugin.Observer = observer(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return eviction.ObserveReply{}, eviction.ErrRefused
		})
		v.wake(eviction.Wake{Signal: spareSignal, Cause: "x"})
		n.after(10 * time.Second)
		if got := n.count("kill "); got != 0 {
			t.Errorf("killed %d on a signal that is unknown: %v", got, n.story())
		}
	})
}

// The host went on looking each second after the plugin had answered again, if with
// an error of its source.
func TestTheHostStopsReadingWhenTheSourceSaysNo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.fallback, n.stands = &byHand{node: n}, true
		n.fail(failing)
		n.run(settings(t, hard("1Gi")), rundir.State{})
		n.after(5 * time.Second)
		n.fail(refusing)
		n.after(5 * time.Second)
		if !strings.Contains(n.log.String(), "host no longer reads the signal") {
			t.Error("still reading")
		}
		n.after(10 * time.Minute)
		passes := n.loop.Snapshot().Passes
		n.after(100 * time.Second)
		if got := n.loop.Snapshot().Passes - passes; got > 20 {
			t.Errorf("%d passes in 100 s, want one each 10 s", got)
		}
	})
}
