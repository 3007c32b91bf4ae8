package loop

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// ownSettings have a hard threshold of 10% for spare, a soft one of 100 for wear
// and 1Gi of memory.
func ownSettings(t *testing.T) Settings {
	t.Helper()
	return settings(t, policy.ThresholdConfig{
		Hard:            map[string]string{"memory.available": "1Gi", string(spareSignal): "10%"},
		Soft:            map[string]string{string(wearSignal): "100"},
		SoftGracePeriod: map[string]string{string(wearSignal): "4s"},
	})
}

func TestAnOwnSignalIsActedOnAtOnce(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.addVendor()
		v.frees = 10
		n.start(ownSettings(t))
		n.after(3 * time.Second)
		v.crosses(spareSignal, 900)
		n.after(time.Second)
		n.did.done = slices.DeleteFunc(n.did.done, func(s string) bool { return strings.Contains(s, " look at ") })
		n.wantStory(
			"3s node event NodeHasNVMePressure", "3s node event EvictionThresholdMet", "3s reclaim trim for acme.example/nvme.spare",
			"3s journal big", "3s event Evicted big", "3s kill big grace 1", "3s gone big")
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

func TestAPluginWithAnOwnSignalComesAndGoes(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		s := settings(t, policy.ThresholdConfig{ // memory's timer must run on through all of it
			Hard:            map[string]string{string(spareSignal): "10%"},
			Soft:            map[string]string{"memory.available": "1Gi", string(wearSignal): "100"},
			SoftGracePeriod: map[string]string{"memory.available": "30m", string(wearSignal): "4s"},
		})
		n.memory.available = gi / 2
		n.run(s)
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
		v.available[wearSignal] = 50
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
		if n.loop.Under(nvmePressure) || n.did.count("event NodeHasNoNVMePressure") != 1 {
			t.Errorf("conditions %v after the transition period, events %q", n.loop.Snapshot().Conditions, n.did.story())
		}
		v.comes()
		n.after(3 * time.Second)
		n.wantKills() // its grace period neither ran on without it nor is over since
		if now := n.thresholdOf(eviction.MemoryAvailable).Since; since == nil || now == nil || !now.Equal(*since) {
			t.Errorf("memory is low since %v, was since %v", now, since)
		}
		n.after(2 * time.Second)
		if n.did.count("kill big") != 1 {
			t.Errorf("nobody went when the grace period was over: %q", n.did.story())
		}
	})
}

// What a plugin was to observe is unknown while it is down: nothing is forgotten.
func TestAPluginThatIsDownKeepsItsCondition(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.addVendor()
		n.start(ownSettings(t))
		v.crosses(wearSignal, 50)
		n.plugins.down = map[eviction.Signal]error{spareSignal: errBroken, wearSignal: errBroken}
		v.goes()
		n.after(time.Hour)
		if th := n.thresholdOf(wearSignal); !n.loop.Under(nvmePressure) || th.Since == nil || !th.Unobserved {
			t.Errorf("%+v, conditions %v", th, n.loop.Snapshot().Conditions)
		}
		n.plugins.down = nil
		v.goes()
		n.after(time.Hour)
		if n.loop.Under(nvmePressure) {
			t.Error("the condition stays when the plugin is removed for good")
		}
	})
}

func TestAPluginThatRedefinesItsSignal(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		former := n.addVendor()
		s := ownSettings(t)
		n.start(s)
		former.crosses(wearSignal, 50)
		n.after(3 * time.Second)
		fresh := n.newVendor(3, wearPressure, spareSignal, wearSignal)
		fresh.available[wearSignal] = 50
		fresh.comes()
		if c := n.loop.Snapshot().Conditions; !slices.Equal(c, []eviction.Condition{nvmePressure, wearPressure}) {
			t.Errorf("conditions %v, want the former one until it ends and the new one", c)
		}
		n.after(3999 * time.Millisecond)
		n.wantKills()
		n.after(2 * time.Millisecond)
		n.wantKills("7s kill big grace 120") // the grace period has begun anew
		fresh.crosses(wearSignal, 5000)
		n.after(s.TransitionPeriod + s.MonitoringInterval)
		if c := n.loop.Snapshot().Conditions; len(c) != 0 {
			t.Errorf("conditions %v are left", c)
		}
	})
}

// A condition of the run directory ends although nobody brings its signal any more.
func TestARestartedHostEndsTheConditionOfAPluginThatIsGone(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		s := ownSettings(t)
		n.options.Restored.Conditions = map[eviction.Condition]time.Time{nvmePressure: time.Now().Add(-time.Minute)}
		n.run(s)
		if !n.loop.Under(nvmePressure) {
			t.Error("the condition is gone within the transition period")
		}
		n.after(s.TransitionPeriod - time.Minute + s.MonitoringInterval)
		if n.loop.Under(nvmePressure) {
			t.Error("the condition stays for longer than the transition period")
		}
	})
}

// A reload keeps what plugins have said. Conditions end although one has left no threshold at
// all.
func TestAReloadWithoutThresholdsEndsConditions(t *testing.T) {
	story(t, func(t *testing.T, n *node) {
		v := n.addVendor()
		s := ownSettings(t)
		n.start(s)
		v.crosses(wearSignal, 50)
		n.after(time.Second)
		s.MonitoringInterval = time.Minute
		n.apply(s)
		n.after(3 * time.Second)
		n.wantKills("4s kill big grace 120") // in spite of the reload
		s.Thresholds, s.MonitoringInterval = nil, 10*time.Second
		n.apply(s)
		n.after(s.TransitionPeriod - time.Second)
		if !n.loop.Under(nvmePressure) {
			t.Error("the condition is gone within the transition period")
		}
		n.after(s.MonitoringInterval + time.Second)
		if n.loop.Under(nvmePressure) || n.did.count("event NodeHasNoNVMePressure") != 1 {
			t.Errorf("the condition stays: %q", n.did.story())
		}
	})
}
