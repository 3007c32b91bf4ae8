package process

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

// replace puts a program in the place of another one as an installer does. The
// faulty one may pose as another plugin.
func replace(t *testing.T, program, file, as string) {
	t.Helper()
	content := testos.ReadFile(t, daemon.Build(t, program))
	if as != "" {
		content = append(content, "\x00posing as "+as...)
	}
	beside := filepath.Join(filepath.Dir(file), "."+filepath.Base(file))
	testos.WriteFile(t, beside, content, 0o755)
	testos.Rename(t, beside, file)
}

func statusOf(t *testing.T, d *daemon.Daemon) host.Status {
	t.Helper()
	_, page := d.Get("/status")
	var s host.Status
	if err := json.Unmarshal([]byte(page), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// observation is the state of a signal and its reason.
func observation(s host.Status, signal string) (state, why string) {
	for _, o := range s.Signals {
		if string(o.Signal) == signal {
			return o.State, o.Err
		}
	}
	return "not there", ""
}

// metSince returns the time since which a threshold of the signal is met.
func metSince(s host.Status, signal string) (since time.Time, unobserved bool) {
	for _, t := range s.Thresholds {
		if string(t.Signal) == signal {
			unobserved = t.Unobserved
			if t.Since != nil {
				since = *t.Since
			}
		}
	}
	return since, unobserved
}

// TestADiskPluginThatIsRemovedAndPutBack: its signals are gone within a second and
// say why, and come back; the grace period of memory runs on all the while.
func TestADiskPluginThatIsRemovedAndPutBack(t *testing.T) {
	const grace = 4 * time.Second
	w := newWorld(t)
	for _, dir := range []string{"var/lib/kubelet", "images"} {
		testos.MkdirAll(t, filepath.Join(w.node.Root, dir), 0o755)
	}
	w.runtime.SetImageDir("/images")
	w.config["evictionHard"] = map[string]string{"nodefs.available": "1"}
	w.config["evictionSoft"] = map[string]string{"memory.available": "1Gi"}
	w.config["evictionSoftGracePeriod"] = map[string]string{"memory.available": grace.String()}
	dir := w.plugins("memory", "disk")
	d := w.startReady()
	observed := func() error {
		if state, why := observation(statusOf(t, d), "nodefs.available"); state != "observed" {
			return fmt.Errorf("nodefs.available is %s: %s", state, why)
		}
		return nil
	}
	daemon.Eventually(t, 10*time.Second, observed)
	memory := pluginPID(t, d, "memory")
	w.pressure()
	var since time.Time
	daemon.Eventually(t, 2*time.Second, func() error {
		if since, _ = metSince(statusOf(t, d), "memory.available"); since.IsZero() {
			return fmt.Errorf("the threshold of memory is not met")
		}
		return nil
	})

	testos.Remove(t, filepath.Join(dir, "disk"))
	daemon.Eventually(t, time.Second, func() error {
		s := statusOf(t, d)
		state, why := observation(s, "nodefs.available")
		if _, unobserved := metSince(s, "nodefs.available"); state != "unknown" || !unobserved || !strings.Contains(why, "no running plugin observes it") {
			return fmt.Errorf("nodefs.available is %s (%s), unobserved %v", state, why, unobserved)
		}
		if len(s.Plugins) != 1 {
			return fmt.Errorf("plugins are %+v, want memory alone", s.Plugins)
		}
		return nil
	})
	d.Await("who leaves and what with it", time.Second, func(r evictd.Record) bool {
		return r.Msg == "plugin stopped, its signals are not observed" && r.String("plugin") == "disk" && r.String("because") == "removed"
	})
	if now, _ := metSince(statusOf(t, d), "memory.available"); !now.Equal(since) {
		t.Errorf("the threshold of memory is met since %v, want since %v as before", now, since)
	}

	replace(t, "disk", filepath.Join(dir, "disk"), "")
	daemon.Eventually(t, 2*time.Second, observed)
	got := d.AwaitMsg("evicting pod", 2*grace)
	if waited := time.Since(since); waited < grace || waited > grace+2*time.Second {
		t.Errorf("evicted %v after the threshold was met, want %v as if nothing had been", waited, grace)
	}
	if got.String("signal") != "memory.available" || d.Plugins()["memory"] != memory {
		t.Errorf("evicted under %s, memory has process %d, want memory.available and %d", got.String("signal"), d.Plugins()["memory"], memory)
	}
}

// TestARankerThatIsReplacedWhileItRanks: the pass ends with the process that it
// began with, the next one has the other; a plugin that does not start replaces none.
func TestARankerThatIsReplacedWhileItRanks(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(w.plugins("memory", "rival-slow-in-rank"), "rival-slow-in-rank")
	d := w.startReady()
	old := pluginPID(t, d, "rival-slow-in-rank")
	w.pressure()
	d.Await("the ranking has begun", 5*time.Second, func(r evictd.Record) bool { return r.String("text") == "ranking begins" })
	replace(t, "broken", file, "rival-b")
	d.AwaitMsg("plugin replaced", 5*time.Second)
	if n := len(d.Records("evicting pod")); n == 0 && !daemon.Alive(old) {
		t.Error("the former process has ended although the pass needs it")
	}
	got := d.AwaitMsg("evicting pod", 5*time.Second)
	if got.String("rankReason") != "slow-in-rank" {
		t.Errorf("ranked by %s (%s), want the process that had begun to", got.String("ranker"), got.String("rankReason"))
	}
	daemon.Eventually(t, 5*time.Second, func() error {
		if daemon.Alive(old) {
			return fmt.Errorf("the former process %d lives", old)
		}
		return nil
	})
	s := statusOf(t, d)
	next := s.Plugins[1].PID
	if next == old || s.Plugins[1].Swaps != 1 {
		t.Fatalf("%+v, want another process after one swap", s.Plugins[1])
	}

	replace(t, "broken", file, "exits")
	d.AwaitMsg("plugin was not replaced, the former process stays", 5*time.Second)
	daemon.Eventually(t, 5*time.Second, func() error { // the log tells it before the status does
		p := statusOf(t, d).Plugins[1]
		if p.PID != next || p.State != "running" || p.Replacement == nil || !strings.Contains(p.Replacement.Reason, "exit status 3") {
			return fmt.Errorf("%+v, want process %d and why it was not replaced", p, next)
		}
		return nil
	})
}

// TestAPluginIsReplacedWhereFiguresAreOfAPass: the new process is tried with the
// summary of a pass, since there is none without.
func TestAPluginIsReplacedWhereFiguresAreOfAPass(t *testing.T) {
	w := newWorld(t)
	summary := filepath.Join(w.node.Root, "summary.json")
	write(t, summary, fmt.Sprintf(`{"node": {"nodeName": "test", "memory": {"time": %q, "availableBytes": %d, "workingSetBytes": %d}}}`,
		time.Now().UTC().Format(time.RFC3339), 6*gib, 2*gib))
	w.config["source"] = "summary"
	w.config["summary"] = daemon.Summary(t, "file://"+summary)
	w.config["monitoringInterval"] = "1s"
	file := filepath.Join(w.plugins("memory"), "memory")
	d := w.startReady()
	daemon.Eventually(t, 5*time.Second, func() error {
		if state, why := observation(statusOf(t, d), "memory.available"); state != "observed" {
			return fmt.Errorf("memory.available is %s: %s", state, why)
		}
		return nil
	})
	former := pluginPID(t, d, "memory")
	replace(t, "memory", file, "")
	daemon.Eventually(t, 10*time.Second, func() error {
		if p := statusOf(t, d).Plugins[0]; p.Swaps == 0 || p.PID == former {
			return fmt.Errorf("not replaced: %+v %+v", p, p.Replacement)
		}
		return nil
	})
}

// The built-in plugins are links to evictd's file, which an upgrade replaces while evictd runs.
func TestAnUpgradeReplacesTheBuiltInPlugins(t *testing.T) {
	w := newWorld(t)
	dir, file := w.plugins(), filepath.Join(t.TempDir(), "evictd")
	daemon.Install(t, daemon.Build(t, "evictd"), file)
	former := map[string]int{"memory": 0, "disk": 0}
	for name := range former {
		testos.Symlink(t, file, filepath.Join(dir, name))
	}
	d := w.startReady()
	for name := range former {
		former[name] = pluginPID(t, d, name)
		if comm := string(testos.ReadFile(t, fmt.Sprintf("/proc/%d/comm", former[name]))); comm != name+"\n" {
			t.Errorf("the process of plugin %s is called %q", name, comm)
		}
	}
	replace(t, "evictd", file, "")
	daemon.Eventually(t, 10*time.Second, func() error {
		for _, p := range statusOf(t, d).Plugins {
			if p.Swaps == 0 || p.PID == former[p.Name] {
				return fmt.Errorf("plugin %s is not replaced: %+v %+v", p.Name, p, p.Replacement)
			}
		}
		return nil
	})
}
