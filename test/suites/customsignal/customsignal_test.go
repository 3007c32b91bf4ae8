package customsignal

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/evictd"
)

// wantEvent checks an event as it is in the log.
func wantEvent(t *testing.T, r evictd.Record, eventType, message string) {
	t.Helper()
	if r.String("type") != eventType || r.String("message") != message {
		t.Errorf("event %s is %s %q, want %s %q", r.String("reason"), r.String("type"), r.String("message"), eventType, message)
	}
}

func TestAHardThreshold(t *testing.T) {
	n := start(t, nil, "memory", "drive")
	n.eventually("all is observed", func(s status) bool { return s.Passes > 0 && s.observed(spare) && s.observed(wear) })
	for _, th := range n.status().Thresholds {
		if own := th.Custom; (own != nil) != strings.HasPrefix(th.Signal, "acme.example/") || own != nil && (own.Unit != "blocks" || own.Condition != nvme) {
			t.Errorf("status of %s: %+v", th.Signal, own)
		}
	}

	// The step frees some, and not enough: the threshold is 1000.
	n.write("trim", "100")
	n.write("spare", "800 10000")
	condition := n.AwaitMsg("condition changed", within)
	if condition.String("condition") != nvme || condition.String("reason") != "EvictionThresholdMet" ||
		condition.String("message") != "an eviction threshold of acme.example/NVMePressure is met" {
		t.Errorf("condition %v", condition.Attrs)
	}
	wantEvent(t, n.event("Node", "NodeHasNVMePressure"), "Normal", "Node status is now: NodeHasNVMePressure")
	wantEvent(t, n.event("Node", "EvictionThresholdMet"), "Warning", "Attempting to reclaim acme.example/nvme-spare")
	step := n.AwaitMsg("reclaim step ended", within)
	if step.String("step") != "trim" || step.String("by") != "drive" || step.String("bytesFreed") != "100" {
		t.Errorf("reclaim %v", step.Attrs)
	}
	evicting := n.AwaitMsg("evicting pod", within)
	// What is available is as before the step, as in the kubelet.
	const message = "The node was low on resource: acme.example/nvme-spare. Threshold quantity: 1k, available: 800. "
	for key, want := range map[string]string{
		"pod": "default/little", "signal": spare, "threshold": "10%", "message": message, "graceSeconds": "1",
		"ranker": "drive", "rankReason": "uses 10 blocks, 200 short",
	} {
		if got := evicting.String(key); got != want {
			t.Errorf("evicting pod: %s is %q, want %q", key, got, want)
		}
	}
	if evicting.At < step.At {
		t.Error("the pod went before the step had run")
	}
	evicted := n.event("Pod", "Evicted")
	wantEvent(t, evicted, "Warning", message)
	if got, want := evicted.String("annotations"), `{"evictd.io/record":"`+evicting.String("record")+`","evictd.io/why":"uses 10 blocks, 200 short","offending_containers":"","offending_containers_usage":"","starved_resource":"acme.example/nvme-spare"}`; got != want {
		t.Errorf("annotations %s, want %s", got, want)
	}
	n.AwaitMsg("pod finished", within)
	n.write("spare", "6000 10000")
	for name, want := range map[string]string{
		`kubelet_evictions{eviction_signal="` + spare + `"}`:                        "1",
		`evictd_node_condition{condition="` + nvme + `"}`:                           "1",
		`evictd_signal_unobserved{signal="` + spare + `"}`:                          "0",
		`evictd_signal_capacity{signal="` + spare + `"}`:                            "10000",
		`kubelet_eviction_stats_age_seconds_count{eviction_signal="` + spare + `"}`: "1",
	} {
		if got := n.metric(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}

	// The condition goes after the transition period.
	cleared := n.event("Node", "NodeHasNoNVMePressure")
	wantEvent(t, cleared, "Normal", "Node status is now: NodeHasNoNVMePressure")
	if lasted := time.Duration(cleared.At - evicting.At); lasted < transition-200*time.Millisecond {
		t.Errorf("the condition was gone after %v, want it for %v", lasted, transition)
	}
	n.eventually("the condition is gone", func(s status) bool { return !s.under(nvme) })
	if !n.runtime.Running("uid-much") {
		t.Error("a second pod went")
	}
}

func TestAReclaimStepThatIsEnough(t *testing.T) {
	n := start(t, nil, "memory", "drive")
	n.write("trim", "500")
	n.write("spare", "800 10000")
	n.AwaitMsg("reclaim was enough, no pod has to go", within)
	if evicted := n.Records("evicting pod"); len(evicted) > 0 {
		t.Errorf("a pod goes all the same: %v", evicted[0].Attrs)
	}
}

func TestASoftThreshold(t *testing.T) {
	n := start(t, nil, "memory", "drive")
	n.write("wear", "99 10000")
	met := n.AwaitMsg("threshold met", within)
	if met.String("signal") != wear || met.String("gracePeriod") != "1s" {
		t.Errorf("met %v", met.Attrs)
	}
	evicting := n.AwaitMsg("evicting pod", within)
	const message = "The node was low on resource: acme.example/nvme-wear. Threshold quantity: 100, available: 99. "
	if evicting.String("message") != message || evicting.String("graceSeconds") != "7" || evicting.String("pod") != "default/little" {
		t.Errorf("evicting %v, want default/little with 7 s and %q", evicting.Attrs, message)
	}
	if waited := time.Duration(evicting.At - met.At); waited < 900*time.Millisecond {
		t.Errorf("the pod went after %v, want a grace period of 1s", waited)
	}
}

// Both signals raise the same condition; memory is another matter all the time.
func TestAPluginIsRemovedAndPutBack(t *testing.T) {
	n := start(t, map[string]any{
		"requiredSignals":         []string{spare},
		"evictionSoft":            map[string]string{"memory.available": "7680Mi", wear: "100"},
		"evictionSoftGracePeriod": map[string]string{"memory.available": "1h", wear: "1h"},
		"evictionHard":            map[string]string{spare: "1"},
	}, "memory", "drive")
	n.write("wear", "99 10000")
	// Conditions are published before a pass acts, thresholds at its end.
	before := n.eventually("the drive is worn", func(s status) bool { return s.under(nvme) && len(s.Thresholds) > 0 })
	if !n.healthy() {
		t.Error("not healthy with the plugin")
	}

	n.remove()
	removed := time.Now()
	n.eventually("its signals are switched off", func(s status) bool { return !s.observed(spare) && !s.observed(wear) })
	if took := time.Since(removed); took > time.Second {
		t.Errorf("its signals were switched off after %v, want at most 1s", took)
	}
	n.AwaitMsg("custom signal is gone, its thresholds have no effect", within)
	n.Await("a warning of the signal", within, func(r evictd.Record) bool {
		return r.Msg == "signal is not observed, its thresholds are not enforced" && r.String("signal") == wear
	})
	if n.metric(`evictd_signal_unobserved{signal="`+wear+`"}`) != "1" || n.healthy() {
		t.Errorf("metric %q, healthy %v; want 1 and not healthy without a required signal", n.metric(`evictd_signal_unobserved{signal="`+wear+`"}`), n.healthy())
	}
	gone := n.eventually("its condition ends", func(s status) bool { return !s.under(nvme) })
	if lasted := time.Since(removed); lasted < transition-500*time.Millisecond {
		t.Errorf("the condition was gone after %v, want it for %v", lasted, transition)
	}
	if n.metric(`evictd_node_condition{condition="`+nvme+`"}`) != "0" {
		t.Error("the metric has the condition for ever")
	}

	n.install("")
	after := n.eventually("its signals are back", func(s status) bool { return s.observed(spare) && s.observed(wear) && s.under(nvme) })
	n.AwaitMsg("signal is observed again", within)
	if !n.healthy() {
		t.Errorf("not healthy with the plugin back: %s", n.status().NotReady)
	}
	for _, s := range []status{gone, after} {
		for i, th := range s.Thresholds {
			if th.Signal == "memory.available" && (th.Since == nil || !th.Since.Equal(*before.Thresholds[i].Since)) {
				t.Errorf("memory is low since %v, was since %v", th.Since, before.Thresholds[i].Since)
			}
			if th.Signal == wear && th.Since != nil && !th.Since.After(removed) {
				t.Errorf("the drive is worn since %v, before the plugin came back", th.Since)
			}
		}
	}
}

func TestAPluginIsReplacedByOneWithAnotherDefinition(t *testing.T) {
	n := start(t, map[string]any{"evictionSoftGracePeriod": map[string]string{wear: "1h"}}, "memory", "drive")
	n.write("wear", "99 10000")
	n.eventually("the drive is worn", func(s status) bool { return s.under(nvme) })
	n.install("\ncondition=acme.example/WearPressure\n")
	anew := n.Await("another definition", within, func(r evictd.Record) bool {
		return r.Msg == "custom signal redefined, its thresholds start over and its former condition ends" && r.String("signal") == wear
	})
	if anew.String("condition") != "acme.example/WearPressure" || anew.String("formerCondition") != nvme {
		t.Errorf("%v", anew.Attrs)
	}
	n.eventually("the new condition", func(s status) bool { return s.under("acme.example/WearPressure") })
	s := n.eventually("the former one has ended", func(s status) bool { return !s.under(nvme) })
	if !s.under("acme.example/WearPressure") {
		t.Error("the new condition has ended with it")
	}
	n.event("Node", "NodeHasNoNVMePressure")

	// Nothing of it is left for the next evictd.
	n.Signal(syscall.SIGTERM)
	next := *n
	next.Daemon = n.Restart()
	next.AwaitReady()
	s = next.eventually("a pass", func(s status) bool { return s.Passes > 0 })
	if s.under(nvme) || !s.under("acme.example/WearPressure") {
		t.Errorf("conditions after the restart: %v", s.Conditions)
	}
}

func TestARestartKeepsTheConditionForItsTransitionPeriod(t *testing.T) {
	n := start(t, map[string]any{"evictionPressureTransitionPeriod": "1h", "evictionSoftGracePeriod": map[string]string{wear: "1h"}}, "memory", "drive")
	n.write("wear", "99 10000")
	n.eventually("the drive is worn", func(s status) bool { return s.under(nvme) })
	n.write("wear", "5000 10000")
	n.eventually("it is not any more", func(s status) bool {
		for _, th := range s.Thresholds {
			if th.Since != nil {
				return false
			}
		}
		return true
	})
	n.Signal(syscall.SIGTERM)
	next := *n
	next.Daemon = n.Restart()
	next.AwaitReady()
	s := next.eventually("some passes", func(s status) bool { return s.Passes > 2 })
	if !s.under(nvme) {
		t.Errorf("conditions after the restart: %v, want %s", s.Conditions, nvme)
	}
}

// The plugin is removed while no evictd runs: nothing is for ever.
func TestARestartEndsTheConditionOfAPluginThatIsGone(t *testing.T) {
	n := start(t, map[string]any{"evictionSoftGracePeriod": map[string]string{wear: "1h"}}, "memory", "drive")
	n.write("wear", "99 10000")
	n.eventually("the drive is worn", func(s status) bool { return s.under(nvme) })
	n.Signal(syscall.SIGTERM)
	n.Wait(within)
	n.remove()
	next := *n
	next.Daemon = n.Restart()
	next.AwaitReady()
	next.eventually("the condition has ended", func(s status) bool { return s.Passes > 0 && !s.under(nvme) })
	next.eventually("nothing is kept of it", func(status) bool {
		kept, err := os.ReadFile(filepath.Join(n.RunDir, "conditions.json"))
		return err != nil || !strings.Contains(string(kept), nvme)
	})
}

func TestAPluginThatNeverCame(t *testing.T) {
	n := start(t, map[string]any{"requiredSignals": []string{spare}}, "memory")
	s := n.eventually("a pass", func(s status) bool { return s.Passes > 0 })
	if s.observed(spare) || s.observed(wear) || len(s.Conditions) > 0 {
		t.Errorf("status %+v", s)
	}
	for _, th := range s.Thresholds {
		if th.Custom != nil && th.Custom.Condition != "" {
			t.Errorf("%s raises %s, which nobody has said", th.Signal, th.Custom.Condition)
		}
	}
	if want := "required signal acme.example/nvme.spare is not observed"; !strings.Contains(s.NotReady, want) {
		t.Errorf("not ready: %q, want %q", s.NotReady, want)
	}
	for _, signal := range []string{spare, wear} {
		if got := n.metric(fmt.Sprintf("evictd_signal_unobserved{signal=%q}", signal)); got != "1" {
			t.Errorf("metric of %s is %q, want 1", signal, got)
		}
		n.Await("a warning of "+signal, within, func(r evictd.Record) bool {
			return r.Msg == "signal is not observed, its thresholds are not enforced" && r.String("signal") == signal
		})
	}
	n.install("")
	n.eventually("it comes after all", func(s status) bool { return s.observed(spare) && s.NotReady == "" })
}
