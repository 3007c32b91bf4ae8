package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/test/fakes/fakecri"
	"github.com/evictd/evictd/test/harness/daemon"
)

func pluginPID(t *testing.T, d *daemon.Daemon, name string) int {
	t.Helper()
	var pid int
	daemon.Eventually(t, 5*time.Second, func() error {
		var ok bool
		if pid, ok = d.Plugins()[name]; !ok {
			return fmt.Errorf("no process of plugin %s among %v", name, d.Plugins())
		}
		return nil
	})
	return pid
}

func kill(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Fatal(err)
	}
}

func TestPluginsAreGoneWithinASecondOfTheHostsDeath(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory", "good", "ignores-pipe")
	d := w.startReady()
	stopped := pluginPID(t, d, "good")
	kill(t, stopped, syscall.SIGSTOP)
	pids := d.Plugins()
	if len(pids) != 3 {
		t.Fatalf("plugins = %v, want three", pids)
	}
	d.Signal(syscall.SIGKILL)
	daemon.Eventually(t, time.Second, func() error {
		for name, pid := range pids {
			if daemon.Alive(pid) {
				return fmt.Errorf("plugin %s (pid %d) lives", name, pid)
			}
		}
		return nil
	})
}

func TestAPassWhosePluginsDieStillEvictsAndTheyComeBackWithinASecond(t *testing.T) {
	w := newWorld(t)
	w.plugins("memory", "rival-hangs-in-rank")
	d := w.startReady()
	ranker, memory := pluginPID(t, d, "rival-hangs-in-rank"), pluginPID(t, d, "memory")
	w.pressure()
	d.AwaitMsg("threshold met", 5*time.Second)
	time.Sleep(200 * time.Millisecond) // The pass has measured and waits for the ranker.
	kill(t, memory, syscall.SIGKILL)
	kill(t, ranker, syscall.SIGKILL)
	killed := time.Now()
	line := d.AwaitMsg("evicting pod", 2*time.Second)
	if line.String("pod") != "default/big" || line.String("ranker") != "evictd" {
		t.Errorf("victim %s ranked by %s, want default/big by the host's own comparators", line.String("pod"), line.String("ranker"))
	}
	daemon.Eventually(t, time.Second-time.Since(killed), func() error {
		for name, former := range map[string]int{"memory": memory, "rival-hangs-in-rank": ranker} {
			if pid := d.Plugins()[name]; pid == 0 || pid == former {
				return fmt.Errorf("plugin %s is not back", name)
			}
		}
		return nil
	})
}

func TestAStoppedPluginIsReplacedAfterThreeDeadlinesAndTheEvictionHappens(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	former := pluginPID(t, d, "memory")
	kill(t, former, syscall.SIGSTOP)
	stopped := time.Now()
	w.pressure()
	line := d.AwaitMsg("evicting pod", 8*time.Second)
	if line.String("pod") != "default/big" {
		t.Errorf("victim %s, want default/big", line.String("pod"))
	}
	daemon.Eventually(t, 8*time.Second, func() error {
		if daemon.Alive(former) {
			return fmt.Errorf("the stopped process %d lives on", former)
		}
		return nil
	})
	if took := time.Since(stopped); took < 2500*time.Millisecond {
		t.Errorf("killed after %v, want after three deadlines of 1 s", took)
	}
	if next := pluginPID(t, d, "memory"); next == former {
		t.Errorf("process %d is the former one", next)
	}
}

func TestARestartedHostFinishesTheKillOfADeadOneAndTakesNoSecondVictim(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	// The decision is taken and noted, but the kill never arrives.
	w.runtime.Inject(fakecri.StopContainer, fakecri.Fault{Hang: true})
	w.pressure()
	d.AwaitMsg("evicting pod", 5*time.Second)
	d.Signal(syscall.SIGKILL)
	d.Wait(5 * time.Second)
	if !w.runtime.Running("uid-big") {
		t.Fatal("the pod is gone already, the test proves nothing")
	}
	w.runtime.Heal()
	again := d.Restart()
	again.AwaitReady()
	w.gone("big", 5*time.Second)

	again.AwaitMsg("pod finished", 5*time.Second)
	for _, r := range again.Records("evicting pod") {
		t.Errorf("the restarted host took a second victim: %v", r)
	}
	if !w.runtime.Running("uid-small") {
		t.Error("small is gone, want only big")
	}
	// The condition outlives the restart as well.
	if _, status := again.Get("/status"); !strings.Contains(status, `"MemoryPressure"`) {
		t.Errorf("status after the restart has no MemoryPressure:\n%s", status)
	}
}

func TestTheEndIsOrderly(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	pids := d.Plugins()
	d.Signal(syscall.SIGTERM)
	if code := d.Wait(5 * time.Second); code != 0 {
		t.Errorf("exit status %d, want 0", code)
	}
	for name, pid := range pids {
		if daemon.Alive(pid) {
			t.Errorf("plugin %s (pid %d) lives", name, pid)
		}
	}
	left, err := os.ReadDir(filepath.Join(d.RunDir, "plugins"))
	if err != nil || len(left) != 0 {
		t.Errorf("socket directories left: %v, %v", left, err)
	}
}

func TestAKilledHostsLeftoversAreCleanedUp(t *testing.T) {
	w := newWorld(t)
	d := w.startReady()
	before := socketDirs(t, d)
	if len(before) != 1 {
		t.Fatalf("socket directories while running: %v, want one", before)
	}
	d.Signal(syscall.SIGKILL)
	d.Wait(5 * time.Second)
	again := d.Restart()
	again.AwaitReady()
	after := socketDirs(t, d)
	if len(after) != 1 || after[0] == before[0] {
		t.Errorf("socket directories after the restart: %v, want one new one", after)
	}
}

// socketDirs are the directories that plugins have their sockets in.
func socketDirs(t *testing.T, d *daemon.Daemon) []string {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(d.RunDir, "plugins", "*", "plugin[0-9]*"))
	if err != nil {
		t.Fatal(err)
	}
	for n, socket := range sockets {
		sockets[n] = filepath.Dir(socket)
	}
	return sockets
}

func TestASecondEvictdOnTheSameRunDirectoryIsRefused(t *testing.T) {
	w := newWorld(t)
	w.config["runDir"] = daemon.RunDir(t)
	first := w.startReady()
	second := w.start()
	if code := second.Wait(5 * time.Second); code != 1 {
		t.Errorf("exit status %d, want 1", code)
	}
	wantAll(t, "the refusal", second.LogText(), w.config["runDir"].(string), fmt.Sprint(first.PID()))
	w.pressure()
	first.AwaitMsg("pod finished", 5*time.Second)
}
