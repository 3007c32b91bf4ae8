package process

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/daemon"
)

// After a reload that raised the threshold it was said that no pod had taken what was missing, and nothing of the
// reload, nor of the plugin that had been restarted.
func TestAReloadIsTheReason(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory")
	d := w.startReady()
	w.node.SetAvailable(3 * gib)
	time.Sleep(2500 * time.Millisecond) // samples before the reload
	if err := syscall.Kill(d.Plugins()["memory"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.AwaitMsg("plugin exited", 10*time.Second)
	raised := d.Config()
	raised["evictionHard"] = map[string]string{"memory.available": "4Gi"}
	d.WriteConfig(raised)
	d.Signal(syscall.SIGHUP)
	d.AwaitMsg("pod finished", 10*time.Second)
	ask := func(args ...string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), append(args, "--config", d.ConfigFile)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	var text string
	daemon.Eventually(t, 5*time.Second, func() error {
		text = ask("explain", "default/big")
		return saysAll(text, "what followed")
	})
	wantAll(t, "explain", text,
		"default/big was evicted for memory.available; a reload put memory.available<4Gi in force at ",
		"not earlier: a reload put memory.available<4Gi in force at ",
		"reload: memory.available<4Gi, ", "before: memory.available<1Gi", " plugin memory ended\n", " plugin memory started\n")
	wantAll(t, "explain --if", ask("explain", "default/big", "--if", "memory.available<5Gi"), "memory.available<5Gi would have been met ", "s earlier")
	list := ask("evictions")
	episode, _, _ := strings.Cut(strings.Split(list, "\n")[1], " ")
	wantAll(t, "explain EPISODE", ask("explain", episode), "was evicted for memory.available; a reload put memory.available<4Gi in force")
}

// In a cluster a change of a value is a restart, and a restarted evictd had forgotten the former threshold: it named what had
// grown in its first second, itself at times.
func TestARestartIsTheReason(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory")
	d := w.startReady()
	d.AwaitMsg("pass", 10*time.Second) // its thresholds are saved from then on
	w.node.SetAvailable(3 * gib)
	raised := d.Config()
	raised["evictionHard"] = map[string]string{"memory.available": "4Gi"}
	d.WriteConfig(raised)
	d.Signal(syscall.SIGTERM)
	d.Wait(10 * time.Second)
	d = d.Restart()
	d.AwaitMsg("pod finished", 10*time.Second)
	var text string
	daemon.Eventually(t, 5*time.Second, func() error {
		out, err := exec.CommandContext(t.Context(), daemon.Build(t, "evictctl"), "explain", "default/big", "--config", d.ConfigFile).CombinedOutput()
		text = string(out)
		return errors.Join(err, saysAll(text, "what followed"))
	})
	wantAll(t, "explain", text,
		"default/big was evicted for memory.available; a restart of evictd put memory.available<4Gi in force at ", ", before: memory.available<1Gi\n",
		" restart: memory.available<4Gi, ")
}
