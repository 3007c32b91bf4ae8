package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/sandbox"
)

// cgroupsOf returns which of dirs are cgroups of a plugin.
func cgroupsOf(name string, dirs []string) []string {
	var all []string
	for _, dir := range dirs {
		if strings.HasPrefix(filepath.Base(dir), name+".") {
			all = append(all, dir)
		}
	}
	return all
}

func TestLimits(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	memory, cpu := int64(100<<20), int64(500)
	h := startHost(t, install(t, "usual", "limited", "free", "memory"), func(o *Options) {
		o.Settings = map[string]Settings{
			"limited": {Confine: as(sandbox.Policy{MemoryBytes: memory, MilliCPU: cpu})},
			"free":    {Confine: func(p *sandbox.Policy) { p.MemoryBytes, p.MilliCPU = 0, 0 }},
		}
	})
	for name, c := range map[string]struct{ memory, cpu string }{
		"usual": {"268435456", "100000"}, "limited": {"104857600", "50000"}, "free": {"", "-1"},
	} {
		got := map[string]string{}
		dirs := cgroupsOf(name, h.root.Cgroups())
		for _, dir := range dirs {
			for _, file := range []string{"memory.limit_in_bytes", "cpu.cfs_quota_us", "pids.max", "cgroup.procs"} {
				if content, err := os.ReadFile(filepath.Join(dir, file)); err == nil {
					got[file] = strings.TrimSpace(string(content))
				}
			}
			if got["cgroup.procs"] != strconv.Itoa(h.plugin(name).PID) {
				t.Errorf("%s: %q are in %s, want the plugin alone", name, got["cgroup.procs"], dir)
			}
		}
		if c.memory != "" && got["memory.limit_in_bytes"] != c.memory || got["cpu.cfs_quota_us"] != c.cpu || got["pids.max"] != "512" {
			t.Errorf("%s: limits %v, want %+v", name, got, c)
		}
	}
	wanted := &Confinement{Status: sandbox.Status{Policy: sandbox.Policy{MemoryBytes: memory, MilliCPU: cpu, Custom: true}}}
	if diff := cmp.Diff(wanted, h.plugin("limited").Confinement); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if dirs := cgroupsOf("memory", h.root.Cgroups()); len(dirs) != 0 {
		t.Errorf("the built-in plugin is in %v, want no cgroup", dirs)
	}
	bases := cgroupsOf("usual", h.root.Cgroups())
	h.stop()
	for _, dir := range bases {
		if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", filepath.Dir(dir))
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	limit := int64(64 << 20)
	h := startHost(t, install(t, "eats-memory", "good"), confined("eats-memory", sandbox.Policy{MemoryBytes: limit}))
	p, i := h.pinned("eats-memory")
	defer p.Release()
	if _, err := observe(t.Context(), i); err == nil {
		t.Error("it has what it wanted")
	}
	eventually(t, "it runs again", func() bool { return h.plugin("eats-memory").Restarts > 0 })
	want(t, h.plugin("eats-memory").LastError, "exited by itself (signal: killed, it had reached its memory limit)")
}

// Who leaves parent and process group is found all the same, with the socket that
// it holds in the plugin's directory.
func TestOrphanDiesWithThePlugin(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "forks-twice"))
	eventually(t, "plugin and orphan run", func() bool { return len(processesOf(h.sockets)) == 2 })
	if dirs := cgroupsOf("forks-twice", h.root.Cgroups()); len(dirs) == 0 {
		t.Fatal("no cgroup")
	}
	before := h.plugin("forks-twice")
	kill(t, before.PID)
	eventually(t, "only the new ones run", func() bool {
		s := h.plugin("forks-twice")
		return s.State == Running && s.PID != before.PID && len(processesOf(h.sockets)) == 2
	})
	h.stop() // It fails if something is left.
}

func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestForkBombIsBounded(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "forks", "good"), shortStop, confined("forks", sandbox.Policy{MemoryBytes: 1 << 30})) // more than it can fork into
	p, i := h.pinned("forks")
	beside(t.Context(), p, i, func() {
		eventually(t, "it forks", func() bool { return len(processesOf(h.sockets)) >= 5 })
	})
	if n := len(processesOf(h.sockets)); n > 512 {
		t.Errorf("%d processes, want at most %d", n, 512)
	}
	h.stop()
}
