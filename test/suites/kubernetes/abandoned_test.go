package kubernetes_test

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/stack"
)

// A run that is SIGKILLed leaves neither processes, mounts, cgroups and files nor the
// settings that the kubelet made.
func TestAKilledRunLeavesNothing(t *testing.T) {
	require(t)
	before := settings(t)
	self, err := os.Executable()
	must(t, err)
	ctx := soon(t)
	owner := exec.CommandContext(ctx, self)
	owner.Env = append(os.Environ(), ownerEnv+"=1")
	stdout, err := owner.StdoutPipe()
	must(t, err)
	must(t, owner.Start())
	dir, err := bufio.NewReader(stdout).ReadString('\n')
	if dir = strings.TrimSpace(dir); err != nil || !filepath.IsAbs(dir) {
		t.Fatalf("the owner said %q, %v; want the cluster's directory", dir, err)
	}
	if maps.Equal(settings(t), before) {
		t.Log("  the kubelet found the machine's settings as it wants them")
	}
	begin := time.Now()
	must(t, owner.Process.Kill())
	_ = owner.Wait() // "signal: killed"
	record := filepath.Join("/run/evictd-stack", filepath.Base(dir)+".json")
	for {
		if _, err := os.Stat(record); os.IsNotExist(err) {
			break // the guard takes it away last, having looked for everything else
		}
		must(t, stack.Pause(ctx, 10*time.Millisecond))
	}
	t.Logf("  all gone after %.1f s", time.Since(begin).Seconds())
	if after := settings(t); !maps.Equal(after, before) {
		t.Errorf("settings of the machine: %v, were %v", after, before)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("directory of the killed run: %v, want it gone", err)
	}
	if stray, _ := filepath.Glob("/sys/fs/cgroup/*/" + filepath.Base(dir)); len(stray) > 0 {
		t.Errorf("cgroups of the killed run: %v", stray)
	}
}

// settings are some that a kubelet changes.
func settings(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"} {
		raw, err := os.ReadFile(filepath.Join("/proc/sys", name))
		must(t, err)
		values[name] = strings.TrimSpace(string(raw))
	}
	return values
}
