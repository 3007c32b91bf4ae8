package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/evictd/evictd/shared/eviction"
)

func TestExposition(t *testing.T) {
	m := New("v1.2.3", "abc")
	m.Evicted(eviction.MemoryAvailable)
	m.StatsAge(eviction.MemoryAvailable, 30*time.Millisecond)
	m.Preempted("memory")
	m.Preempted("")
	m.Passed("wake", 2*time.Millisecond)
	m.Observed(eviction.MemoryAvailable, 1<<30, 4<<30)
	m.Unobserved(eviction.NodeFsAvailable, true)
	m.Condition(eviction.MemoryPressure, true)
	m.Condition(eviction.DiskPressure, false)
	m.PluginUp("memory", true)
	m.PluginRestarted("memory")
	m.CallFailed("memory", "observe", fmt.Errorf("observe: %w", context.DeadlineExceeded))
	m.VictimsEnding(1)
	m.Reloaded(errors.New("bad"))
	m.DroppedLogLines = func() uint64 { return 7 }
	m.LostEvents = func() uint64 { return 2 }
	m.Findings = func() map[Finding]int { return map[Finding]int{{"filesystems", "error"}: 2} }

	want := `
# HELP evictd_config_reloads_total Reloads of the configuration, by result: ok was applied, error was refused whole.
# TYPE evictd_config_reloads_total counter
evictd_config_reloads_total{result="error"} 1
evictd_config_reloads_total{result="ok"} 0
# HELP evictd_events_lost_total Events that never reached the API server.
# TYPE evictd_events_lost_total counter
evictd_events_lost_total 2
# HELP evictd_inspection_findings What evictctl check finds wrong now, by probe and level.
# TYPE evictd_inspection_findings gauge
evictd_inspection_findings{level="error",probe="filesystems"} 2
# HELP evictd_kills_in_flight Victims that are not yet finished.
# TYPE evictd_kills_in_flight gauge
evictd_kills_in_flight 1
# HELP evictd_log_lines_dropped_total Lines of the log that were dropped, since it could not be written for too long.
# TYPE evictd_log_lines_dropped_total counter
evictd_log_lines_dropped_total 7
# HELP evictd_node_condition 1 while the node condition is in force, else 0.
# TYPE evictd_node_condition gauge
evictd_node_condition{condition="DiskPressure"} 0
evictd_node_condition{condition="MemoryPressure"} 1
# HELP evictd_passes_total Passes since the start.
# TYPE evictd_passes_total counter
evictd_passes_total 1
# HELP evictd_plugin_call_failures_total Calls to a plugin that had no usable answer, by the call and the kind of failure.
# TYPE evictd_plugin_call_failures_total counter
evictd_plugin_call_failures_total{call="observe",kind="timeout",plugin="memory"} 1
# HELP evictd_plugin_restarts_total Starts of a plugin after its first.
# TYPE evictd_plugin_restarts_total counter
evictd_plugin_restarts_total{plugin="memory"} 1
# HELP evictd_plugin_up 1 while the plugin serves, else 0.
# TYPE evictd_plugin_up gauge
evictd_plugin_up{plugin="memory"} 1
# HELP evictd_signal_available What was left of a signal when last observed, in its base unit: bytes, inodes, processes or what its plugin counts.
# TYPE evictd_signal_available gauge
evictd_signal_available{signal="memory.available"} 1.073741824e+09
# HELP evictd_signal_capacity The capacity of a signal when last observed, in its base unit: bytes, inodes, processes or what its plugin counts.
# TYPE evictd_signal_capacity gauge
evictd_signal_capacity{signal="memory.available"} 4.294967296e+09
# HELP evictd_signal_unobserved 1 if a threshold is configured for the signal that could not be observed, so that it has no effect; else 0.
# TYPE evictd_signal_unobserved gauge
evictd_signal_unobserved{signal="nodefs.available"} 1
# HELP kubelet_eviction_stats_age_seconds Age in seconds of the figure of a signal when it was acted on.
# TYPE kubelet_eviction_stats_age_seconds histogram
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.005"} 0
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.01"} 0
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.025"} 0
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.05"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.1"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.25"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="0.5"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="1"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="2.5"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="5"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="10"} 1
kubelet_eviction_stats_age_seconds_bucket{eviction_signal="memory.available",le="+Inf"} 1
kubelet_eviction_stats_age_seconds_sum{eviction_signal="memory.available"} 0.03
kubelet_eviction_stats_age_seconds_count{eviction_signal="memory.available"} 1
# HELP kubelet_evictions Pods evicted, by the signal whose threshold was acted on. Counts evictions whose kill failed too, as the kubelet does.
# TYPE kubelet_evictions counter
kubelet_evictions{eviction_signal="emptydirfs.limit"} 0
kubelet_evictions{eviction_signal="ephemeralcontainerfs.limit"} 0
kubelet_evictions{eviction_signal="ephemeralpodfs.limit"} 0
kubelet_evictions{eviction_signal="memory.available"} 1
kubelet_evictions{eviction_signal="nodefs.available"} 0
# HELP kubelet_preemptions Pods killed to make room for a critical one, by the first resource that this one lacked.
# TYPE kubelet_preemptions counter
kubelet_preemptions{preemption_signal="memory"} 1
kubelet_preemptions{preemption_signal="other"} 1
`
	if err := testutil.GatherAndCompare(m.registry, strings.NewReader(want),
		"kubelet_evictions", "kubelet_eviction_stats_age_seconds", "kubelet_preemptions", "evictd_passes_total",
		"evictd_signal_available", "evictd_signal_capacity", "evictd_signal_unobserved", "evictd_node_condition",
		"evictd_plugin_up", "evictd_plugin_restarts_total", "evictd_plugin_call_failures_total",
		"evictd_kills_in_flight", "evictd_config_reloads_total", "evictd_log_lines_dropped_total", "evictd_events_lost_total"); err != nil {
		t.Error(err)
	}
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("GET /metrics: status %d, %v", w.Code, err)
	}
	return string(body)
}

func TestScrapeStartsWithTheKubeletsNames(t *testing.T) {
	m := New("v1.2.3", "abc")
	m.Evicted(eviction.MemoryAvailable)
	m.StatsAge(eviction.MemoryAvailable, time.Second)
	m.Passed("interval", time.Millisecond)
	m.Killed(700*time.Millisecond, nil)
	body := scrape(t, m)
	last := -1
	for _, want := range []string{
		`kubelet_evictions{eviction_signal="memory.available"} 1`,
		`evictd_build_info{commit="abc",go_version="go`,
		`evictd_kill_duration_seconds_bucket{result="ok",le="1"} 1`,
		`evictd_pass_duration_seconds_count{trigger="interval"} 1`,
		"go_goroutines",
		"process_resident_memory_bytes",
	} {
		at := strings.Index(body, want)
		if at <= last {
			t.Errorf("scrape has %q at %d, want it after %d", want, at, last)
		}
		last = at
	}
}

func TestLabelsStayFew(t *testing.T) {
	m := New("", "")
	for i := range 10 * maxNames {
		name := fmt.Sprintf("acme.example/signal-%d", i)
		m.Observed(eviction.Signal(name), 1, 2)
		m.Condition(eviction.Condition(name), true)
		m.CallFailed(name, name, errors.New(name))
		m.PluginUp(name, true)
		m.Passed(name, 0)
	}
	if got := testutil.CollectAndCount(m.available); got != maxNames {
		t.Errorf("evictd_signal_available has %d series, want %d: the rest has no figure", got, maxNames)
	}
	for name, got := range map[string]int{
		"evictd_node_condition":             testutil.CollectAndCount(m.condition.vec),
		"evictd_plugin_call_failures_total": testutil.CollectAndCount(m.callFailures),
		"evictd_plugin_up":                  testutil.CollectAndCount(m.pluginUp.vec),
	} {
		if got != maxNames+1 {
			t.Errorf("%s has %d series, want %d names and one for the rest", name, got, maxNames)
		}
	}
	if got := testutil.CollectAndCount(m.passDuration); got != 1 {
		t.Errorf("evictd_pass_duration_seconds has %d series, want 1 for all triggers that are not known", got)
	}
}

func TestNamesThatCannotBeLabels(t *testing.T) {
	m := New("", "")
	for _, name := range []string{"", "\xff\xfe", strings.Repeat("x", maxNameBytes+1)} {
		m.PluginUp(name, true)
		m.Evicted(eviction.Signal(name))
	}
	if body := scrape(t, m); !strings.Contains(body, `evictd_plugin_up{plugin="other"} 1`) {
		t.Errorf("scrape lacks the plugin %q:\n%s", other, body)
	}
}

func TestWhatIsGoneIsNotShown(t *testing.T) {
	m := New("", "")
	m.PluginUp("memory", true)
	m.PluginGone("memory")
	m.Unobserved(eviction.PIDAvailable, true)
	m.Observed(eviction.PIDAvailable, 1, 2)
	m.SignalGone(eviction.PIDAvailable)
	body := scrape(t, m)
	for _, not := range []string{"evictd_plugin_up{", "evictd_signal_unobserved{", "evictd_signal_available{"} {
		if strings.Contains(body, not) {
			t.Errorf("scrape still has %s", not)
		}
	}
}

func TestKindsOfFailure(t *testing.T) {
	for want, err := range map[string]error{
		"timeout":       context.DeadlineExceeded,
		"canceled":      context.Canceled,
		"refused":       eviction.ErrRefused,
		"unavailable":   eviction.ErrUnavailable,
		"unsupported":   eviction.ErrUnsupported,
		"invalid_reply": eviction.ErrInvalidReply,
		"other":         io.EOF,
	} {
		if got := kindOf(fmt.Errorf("rank: %w", err)); got != want {
			t.Errorf("kindOf(%v) = %q, want %q", err, got, want)
		}
	}
}

// evictd_plugin_up{plugin="other"} was 1 as the last one to change, while others
// behind it were down.
func TestTheRestIsAsBadAsTheWorstOfIt(t *testing.T) {
	m := New("", "")
	for i := range maxNames {
		m.PluginUp(fmt.Sprint("p", i), true)
		m.Unobserved(eviction.Signal(fmt.Sprint("s", i)), false)
		m.Condition(eviction.Condition(fmt.Sprint("c", i)), false)
	}
	want := func(when string, series ...string) {
		t.Helper()
		body := scrape(t, m)
		for _, s := range series {
			if !strings.Contains(body, s+"\n") {
				t.Errorf("%s: no %s", when, s)
			}
		}
	}
	const up, unobserved, condition = `evictd_plugin_up{plugin="other"}`, `evictd_signal_unobserved{signal="other"}`, `evictd_node_condition{condition="other"}`
	m.PluginUp("x", false)
	m.PluginUp("y", true)
	m.Unobserved("x", true)
	m.Unobserved("y", false)
	m.Condition("x", true)
	m.Condition("y", false)
	want("one is down", up+" 0", unobserved+" 1", condition+" 1")
	m.PluginUp("x", true)
	m.SignalGone("x")
	m.Condition("x", false)
	want("all is well", up+" 1", unobserved+" 0", condition+" 0")
	m.PluginUp("x", false)
	m.PluginGone("y")
	want("another one is gone", up+" 0")
	m.PluginGone("x")
	if body := scrape(t, m); strings.Contains(body, up) {
		t.Error("the rest is shown and there is none")
	}
}
