package process

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	testos.WriteFile(t, path, text, 0o644)
}

func saysAll(text string, parts ...string) error {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return fmt.Errorf("nothing says %q in:\n%s", p, text)
		}
	}
	return nil
}

// TestBadConfiguration: the mistakes are named with the field, the value and what would be right, and the exit status is 2.
func TestBadConfiguration(t *testing.T) {
	w := newWorld(t)
	maps.Copy(w.config, map[string]any{"nonsense": 1, "pacing": "fast", "evictionHard": map[string]string{"memory.avail": "1Gi", "memory.available": "abc"}})
	d := w.start()
	if code := d.Wait(5 * time.Second); code != 2 {
		t.Errorf("exit status %d, want 2", code)
	}
	wantAll(t, "the error", d.LogText(), "nonsense", "unknown field", "pacing", "fast", "memory.avail", `evictionHard["memory.available"]`, "abc", "1Gi", "10%")
}

// TestBadPlugins: each is named with what is wrong, and the others evict.
func TestBadPlugins(t *testing.T) {
	for name, c := range map[string]struct {
		plugin string
		mode   os.FileMode
		says   []string
	}{
		"not executable":       {"good", 0o644, []string{"0644", "executable"}},
		"prints rubbish":       {"rubbish", 0o755, []string{"rubbish"}},
		"speaks another major": {"protocol-9", 0o755, []string{"9", "1"}},
		"hangs in Describe":    {"hangs-in-describe", 0o755, []string{"hangs-in-describe", "2s"}},
		"ranks strangers":      {"rival-ranks-foreign", 0o755, []string{"never-sent"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			dir := w.plugins("memory", c.plugin)
			testos.Chmod(t, filepath.Join(dir, c.plugin), c.mode)
			d := w.startReady()
			w.pressure()
			if got := d.AwaitMsg("evicting pod", 5*time.Second); got.String("pod") != "default/big" || got.String("ranker") != "memory" {
				t.Errorf("victim %s by %s, want default/big by memory", got.String("pod"), got.String("ranker"))
			}
			daemon.Eventually(t, 5*time.Second, func() error {
				_, status := d.Get("/status")
				return saysAll(status, append(c.says, c.plugin)...)
			})
			if err := saysAll(d.LogText(), c.says...); err != nil {
				t.Errorf("log: %v", err)
			}
		})
	}
}

// TestAPluginWithoutASource: pid has none on this node, whose /proc knows no
// processes. It is shown as refused with what it wants and left alone. The disk
// plugin waits for the kubelet's directory, which is not there. Nothing else
// suffers.
func TestAPluginWithoutASource(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory", "disk", "pid")
	w.config["evictionHard"] = map[string]string{"memory.available": "1Gi", "nodefs.available": "10%", "pid.available": "10%"}
	d := w.startReady()
	w.pressure()
	d.AwaitMsg("evicting pod", 5*time.Second)
	daemon.Eventually(t, 5*time.Second, func() error {
		if code, body := d.Get("/healthz"); code != http.StatusOK {
			return fmt.Errorf("/healthz is %d: %s", code, body)
		}
		return nil
	})
	var status host.Status
	if _, body := d.Get("/status"); json.Unmarshal([]byte(body), &status) != nil {
		t.Fatalf("/status is no JSON: %s", body)
	}
	states := map[string]string{}
	for _, p := range status.Plugins {
		states[p.Name] = string(p.State)
		if p.Restarts != 0 || p.Name == "pid" && !strings.Contains(p.Reason, "hostPID: true") {
			t.Errorf("%s: %d restarts, %q, want none, and pid refused with the reason", p.Name, p.Restarts, p.Reason)
		}
	}
	if want := map[string]string{"memory": "running", "disk": "running", "pid": "refused"}; !maps.Equal(states, want) {
		t.Errorf("plugins %v, want %v", states, want)
	}
	if n := strings.Count(d.LogText(), `"plugin did not start"`); n != 1 {
		t.Errorf("%d complaints, want one", n)
	}
}

func TestAReloadAppliesAllOrNothingAndKeepsTimers(t *testing.T) {
	w := newWorld(t)
	w.config["evictionHard"] = map[string]string{"memory.available": "100Mi"}
	w.config["evictionSoft"] = map[string]string{"memory.available": "1Gi"}
	w.config["evictionSoftGracePeriod"] = map[string]string{"memory.available": "3s"}
	d := w.startReady()
	w.pressure()
	d.AwaitMsg("threshold met", 5*time.Second)
	met := time.Now()

	bad := d.Config()
	bad["evictionHard"] = map[string]string{"memory.available": "lots"}
	bad["logLevel"] = "error"
	d.WriteConfig(bad)
	d.Signal(syscall.SIGHUP)
	d.AwaitMsg("new configuration refused, the former one stays in force", 5*time.Second)

	restart := d.Config()
	restart["pluginDir"] = "/elsewhere"
	d.WriteConfig(restart)
	d.Signal(syscall.SIGHUP)
	d.Await("refusal that names pluginDir", 5*time.Second, func(l evictd.Record) bool {
		return strings.Contains(l.Msg, "refused") && strings.Contains(l.String("error"), "pluginDir")
	})

	good := d.Config()
	good["evictionHard"] = map[string]string{"memory.available": "50Mi"}
	d.WriteConfig(good)
	d.Signal(syscall.SIGHUP)
	d.AwaitMsg("new configuration in force", 5*time.Second)
	d.AwaitMsg("evicting pod", 5*time.Second)
	if took := time.Since(met); took < 2500*time.Millisecond || took > 4*time.Second {
		t.Errorf("evicted %v after the threshold was met, want the grace period of 3 s, not started anew by the reloads", took)
	}
	if _, status := d.Get("/status"); !strings.Contains(status, `"50Mi"`) {
		t.Errorf("the new threshold is not in force:\n%s", status)
	}
}

func TestDryRunShowsTheVictimAndKillsNoPod(t *testing.T) {
	w := newWorld(t)
	w.config["dryRun"] = true
	d := w.startReady()
	w.pressure()
	line := d.AwaitMsg("evicting pod", 5*time.Second)
	if line.String("dryRun") != "true" {
		t.Errorf("the decision is not marked as dry: %v", line)
	}
	time.Sleep(300 * time.Millisecond)
	if w.kills() != 0 || len(d.Records("evicting pod")) != 1 {
		t.Errorf("%d kills and %d decisions, want none and one", w.kills(), len(d.Records("evicting pod")))
	}
}

func TestStatusMetricsAndHealth(t *testing.T) {
	w := newWorld(t)
	w.config["evictionHard"] = map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}
	d := w.startReady()
	w.pressure()
	d.AwaitMsg("pod finished", 5*time.Second)
	if code, text := d.Get("/healthz"); code != 200 || text != "ok\n" {
		t.Errorf("/healthz = %d %q", code, text)
	}
	_, metrics := d.Get("/metrics")
	wantAll(t, "/metrics", metrics, `kubelet_evictions{eviction_signal="memory.available"} 1`, "kubelet_eviction_stats_age_seconds_bucket",
		`evictd_signal_unobserved{signal="nodefs.available"} 1`, `evictd_plugin_up{plugin="memory"} 1`,
		`evictd_plugin_call_duration_seconds_count{call="observe",plugin="memory"} `, `evictd_plugin_resident_memory_bytes{plugin="memory"} `, `evictd_plugin_cpu_seconds_total{plugin="memory"} `)
	_, status := d.Get("/status")
	wantAll(t, "/status", status, `"MemoryPressure"`, `"unobserved": true`, `"finished"`, "default/big", "The node was low on resource: memory.", `"reason": "Evicted"`)
}

func TestARequiredSignalWithoutObserverMakesTheHostNotReady(t *testing.T) {
	w := newWorld(t)
	w.config["requiredSignals"] = []string{"nodefs.available"}
	w.config["evictionHard"] = map[string]string{"memory.available": "1Gi", "nodefs.available": "10%"}
	d := w.startReady()
	daemon.Eventually(t, 5*time.Second, func() error {
		if code, text := d.Get("/healthz"); code != 503 || !strings.Contains(text, "nodefs.available") {
			return fmt.Errorf("/healthz = %d %q, want 503 and the signal's name", code, text)
		}
		return nil
	})
	// "no decision is on record" was all that an engineer saw of a daemon that could not decide.
	for _, args := range [][]string{{"evictions"}, {"explain", "default/big"}} {
		out, _ := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), append(args, "--config", d.ConfigFile)...).CombinedOutput()
		if want := "evictctl: the daemon is not ready: required signal nodefs.available is not observed\n"; !strings.HasPrefix(string(out), want) || !strings.Contains(string(out), "record") {
			t.Errorf("%v:\n%swant %sfirst", args, out, want)
		}
	}
}

// With the shipped configuration beside a kubelet no pod has a manifest: evictd was healthy
// while the node ran out of memory.
func TestPodsWithoutAManifestMakeTheHostNotReadyWhileMemoryIsShort(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"big", "small"} {
		testos.Remove(t, filepath.Join(w.manifests, name+".yaml"))
	}
	d := w.startReady()
	awaitHealth := func(want int, says string) {
		t.Helper()
		daemon.Eventually(t, 10*time.Second, func() error {
			if code, text := d.Get("/healthz"); code != want || !strings.Contains(text, says) {
				return fmt.Errorf("/healthz = %d %q, want %d and %q", code, text, want, says)
			}
			return nil
		})
	}
	awaitHealth(200, "ok")
	w.pressure()
	awaitHealth(503, `no pod can be evicted: 2 of 2 active pods have no manifest; want manifests in podManifestDir, or beside a kubelet mode "kubernetes"`)
	w.relief()
	awaitHealth(200, "ok")
}

func TestACustomRankerIsInChargeAsSoonAsItIsThere(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory", "rival")
	d := w.startReady()
	w.pressure()
	if got := d.AwaitMsg("evicting pod", 5*time.Second).String("ranker"); got != "rival" {
		t.Errorf("ranked by %s, want rival", got)
	}
	out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "plugins", "--config", d.ConfigFile, "--run-dir", d.RunDir).CombinedOutput()
	if err != nil {
		t.Fatalf("evictctl plugins: %v\n%s", err, out)
	}
	wantAll(t, "evictctl plugins", string(out), "rival", "memory", "rank", "observe")
}

func TestTheNextCustomRankerByNameStandsIn(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory", "rival-ranks-foreign", "rival-second")
	d := w.startReady()
	out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "plugins", "--config", d.ConfigFile, "--run-dir", d.RunDir).CombinedOutput()
	if got := strings.Join(strings.Fields(string(out)), " "); err != nil || !strings.Contains(got, "rank rival-ranks-foreign first by name memory (fallback), rival-second (fallback)") {
		t.Errorf("evictctl plugins: %v, want the first by name in charge\n%s", err, out)
	}
	w.pressure()
	if got := d.AwaitMsg("evicting pod", 5*time.Second).String("ranker"); got != "rival-second" {
		t.Errorf("ranked by %s, want rival-second", got)
	}
}

// Who would go now, and how far it is until then, the daemon tells while it rests.
func TestTheNextVictimIsReported(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory")
	d := w.startReady()
	ask := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), append(args, "--run-dir", d.RunDir)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	wantAll(t, "rank", ask("rank"), "memory.available<", "default/big is before default/small by: ", "PRIORITY", "by memory")
	wantAll(t, "explain --now", ask("explain", "--now"), "more than that", "would go      default/big is before default/small by: ")
	wantAll(t, "explain --now --json", ask("explain", "--now", "--json"), `"kind":"ranking"`, `"order":[`)
	if seen := ask("observe", "--times", "2", "--interval", "200ms"); strings.Count(seen, "conditions: none") != 2 || strings.Count(seen, "1  default/big ") != 2 {
		t.Errorf("observe --times 2:\n%s", seen)
	}
	wantAll(t, "observe --json", ask("observe", "--json", "--times", "1"), `{"version":`, `"thresholds":[`)
	now := filepath.Join(t.TempDir(), "now.json")
	testos.WriteFile(t, now, ask("rank", "--json"), 0o600)
	for _, ranker := range []string{"memory", "rival"} {
		out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "replay", "--plugin-dir", w.plugins("memory", ranker), now).CombinedOutput()
		if err != nil {
			t.Fatalf("replay of the ranking: %v: %s", err, out)
		}
		wantAll(t, "rank --with "+ranker, ask("rank", "--with", w.plugins("memory", ranker)), "default/big is before default/small by: ", "of 2 pods that could go, by "+ranker)
		wantAll(t, "replay of the ranking by "+ranker, string(out), "of 2 candidates by "+ranker, ": default/big goes, as recorded")
	}
	if n := w.kills(); n > 0 {
		t.Errorf("%d pods were killed", n)
	}
	code, text := d.Get("/ranking?signal=acme.example%2Fnothing")
	if code != http.StatusUnprocessableEntity {
		t.Errorf("of a signal without a threshold: %d %s", code, text)
	}
	wantAll(t, "of a signal without a threshold", text, `"acme.example/nothing", want one of allocatableMemory.available, memory.available`)
}

// On a node that thrashes evictd waited for its own pages, and the kernel's OOM killer was first.
func TestWhatAnEvictionNeedsStaysInMemory(t *testing.T) {
	if err := memlock.Refused(); err != nil {
		t.Skip(err)
	}
	w := newWorld(t)
	w.plugins("memory", "rival-hangs-in-rank")
	d := w.startReady()
	locked := func(pid int) (kib int) {
		status := testos.ReadFile(t, fmt.Sprintf("/proc/%d/status", pid))
		_, after, _ := strings.Cut(string(status), "\nVmLck:")
		if _, err := fmt.Sscan(after, &kib); err != nil {
			t.Fatalf("%v: %s", err, status)
		}
		return kib
	}
	if locked(d.Plugins()["memory"]) == 0 {
		t.Error("the memory plugin has locked no memory")
	}
	daemon.Eventually(t, 5*time.Second, func() error {
		smaps, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", d.PID()))
		if err != nil {
			return err
		}
		code := regexp.MustCompile(`(?ms) r-xp [^\n]*/evictd$.*?^Size: +([0-9]+) kB$.*?^Rss: +([0-9]+) kB$.*?^VmFlags: ([^\n]*)$`).FindSubmatch(smaps)
		if code == nil || string(code[1]) != string(code[2]) || !strings.Contains(string(code[3]), " lo") {
			return fmt.Errorf("the program's code is not whole in memory and locked: %s", code)
		}
		return nil
	})
	daemon.Eventually(t, 5*time.Second, func() error { // a choice is rehearsed, with the plugin that is in charge
		_, metrics := d.Get("/metrics")
		if !regexp.MustCompile(`(?i)evictd_plugin_call_failures_total{call="rank".*plugin="rival-hangs-in-rank"} 1`).MatchString(metrics) {
			return fmt.Errorf("no ranking was asked for:\n%s", metrics)
		}
		return nil
	})
	if n := w.kills(); n > 0 {
		t.Errorf("%d pods were killed", n)
	}
}
