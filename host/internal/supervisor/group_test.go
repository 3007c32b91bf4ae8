package supervisor

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// cgroupsOf returns the directories of a plugin's cgroups that exist.
func (h *testHost) cgroupsOf(name string) []string {
	var all []string
	for _, t := range h.spawn.groups.trees {
		found, _ := filepath.Glob(filepath.Join(t.base, name+".*/cgroup.procs"))
		for _, file := range found {
			all = append(all, filepath.Dir(file))
		}
	}
	return all
}

func TestLimits(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	memory, cpu, none := int64(100<<20), int64(500), int64(0)
	h := startHost(t, install(t, "usual", "limited", "free", "memory"), func(o *Options) {
		o.Settings = map[string]Settings{
			"limited": {Confinement: Confinement{MemoryBytes: &memory, MilliCPU: &cpu}},
			"free":    {Confinement: Confinement{MemoryBytes: &none, MilliCPU: &none}},
		}
	})
	for name, c := range map[string]struct{ memory, cpu string }{
		"usual": {"268435456", "100000"}, "limited": {"104857600", "50000"}, "free": {"", "-1"},
	} {
		got := map[string]string{}
		dirs := h.cgroupsOf(name)
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
	wanted := &Confined{Capabilities: "none", MemoryBytes: memory, MilliCPU: cpu}
	if diff := cmp.Diff(wanted, h.plugin("limited").Confinement); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if dirs := h.cgroupsOf("memory"); len(dirs) != 0 {
		t.Errorf("the built-in plugin is in %v, want no cgroup", dirs)
	}
	h.stop()
	for _, tree := range h.spawn.groups.trees {
		if _, err := os.Stat(tree.base); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", tree.base)
		}
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	limit := int64(64 << 20)
	h := startHost(t, install(t, "eats-memory", "good"), confined("eats-memory", Confinement{MemoryBytes: &limit}))
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
	if dirs := h.cgroupsOf("forks-twice"); len(dirs) == 0 {
		t.Fatal("no cgroup")
	}
	before := h.plugin("forks-twice")
	h.kill(before.PID)
	eventually(t, "only the new ones run", func() bool {
		s := h.plugin("forks-twice")
		return s.State == Running && s.PID != before.PID && len(processesOf(h.sockets)) == 2
	})
	h.stop() // It fails if something is left.
}

func (h *testHost) kill(pid int) {
	h.t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func TestForkBombIsBounded(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	h := startHost(t, install(t, "forks", "good"), shortTimeouts)
	p, i := h.pinned("forks")
	_, _ = observe(t.Context(), i)
	p.Release()
	if n := len(processesOf(h.sockets)); n < 5 || n > usualTasks {
		t.Errorf("%d processes, want some and at most %d", n, usualTasks)
	}
	h.stop()
}

func TestCgroupsOfAKilledHostAreSwept(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	key := privateDir(t)
	g := findGroups(key)
	left, err := g.make("left", 1, termsOf(nil, "left"))
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("/bin/sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	for _, d := range left.dirs {
		if err := d.write("cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
			t.Error(err)
		}
	}
	h := startHost(t, install(t, "good"), func(o *Options) { o.SocketRoot = key })
	if err := sleeper.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process that was left: %v, want it killed", err)
	}
	if dirs := h.cgroupsOf("left"); len(dirs) > 0 {
		t.Errorf("left: %v", dirs)
	}
	h.stop()
}

// A host with another directory never comes back to what it left.
func TestStaleCgroupsOfOthersAreSwept(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	other := findGroups(privateDir(t))
	left, err := other.make("left", 1, termsOf(nil, "left"))
	if err != nil {
		t.Fatal(err)
	}
	g := findGroups(privateDir(t))
	if err := g.sweep(); err != nil {
		t.Fatal(err)
	}
	for i, d := range left.dirs {
		if _, err := os.Stat(string(d)); err != nil {
			t.Errorf("a young one is gone: %v", err)
		}
		old := time.Now().Add(-2 * staleAfter)
		if err := errors.Join(os.Chtimes(string(d), old, old), os.Chtimes(other.trees[i].base, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.sweep(); err != nil {
		t.Fatal(err)
	}
	for _, d := range left.dirs {
		if _, err := os.Stat(string(d)); err == nil {
			t.Errorf("%s is left", d)
		}
	}
	// Removing what was in the directories has made them young again.
	other.remove()
}

func TestNoPlaceForCgroups(t *testing.T) {
	t.Parallel()
	out := &syncBuffer{}
	s := newSpawner("", slog.New(slog.NewTextHandler(out, nil)))
	s.groups = &groups{none: errors.New("no cgroups here")}
	for range 3 {
		if g, err := s.group("a", 1, termsOf(nil, "a")); g != nil || err == nil {
			t.Error("a group from nowhere")
		}
	}
	if n := strings.Count(out.String(), "no cgroups here"); n != 1 {
		t.Errorf("told %d times, want once:\n%s", n, out)
	}
}

const (
	hybrid = `30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
33 30 0:29 / /sys/fs/cgroup/pids rw shared:9 - cgroup cgroup rw,pids
34 30 0:30 /box /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 30 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 30 0:32 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
37 30 0:30 /box /somewhere/else rw - cgroup cgroup rw,memory
`
	unified = `31 30 0:27 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw` + "\n"
)

func TestTrees(t *testing.T) {
	for name, c := range map[string]struct {
		mounts, in string
		own        []string
		err        string
	}{
		"hybrid": {
			hybrid, "4:memory:/box/in\n3:cpu,cpuacct:/\n2:pids:/a b\n0::/\n",
			[]string{"/sys/fs/cgroup/memory/in", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/pids/a b"},
			"",
		},
		"unified":                    {unified, "0::/system.slice/evictd.service\n", []string{"/sys/fs/cgroup/system.slice/evictd.service"}, ""},
		"a delegated unit":           {unified, "0::/system.slice/evictd.service/host\n", []string{"/sys/fs/cgroup/system.slice/evictd.service/host"}, ""},
		"outside of the namespace":   {unified, "0::/../../x\n", nil, "cgroup /../../x is outside of what is mounted at /sys/fs/cgroup"},
		"not below what is mounted":  {hybrid, "4:memory:/boxes\n", nil, "cgroup /boxes is not below /box, which is what is mounted at /sys/fs/cgroup/memory"},
		"nothing":                    {"", "", nil, "no cgroup hierarchy is mounted"},
		"only hierarchies of others": {"36 30 0:32 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n", "1:devices:/\n", nil, "no cgroup hierarchy"},
	} {
		t.Run(name, func(t *testing.T) {
			trees, err := treesOf(parseMounts(c.mounts, limiters), parseMembership(c.in), "base")
			var own []string
			for _, tree := range trees {
				own = append(own, tree.own)
				if tree.base != strings.TrimSuffix(tree.own, "/host")+"/base" {
					t.Errorf("base %s", tree.base)
				}
			}
			if diff := cmp.Diff(c.own, own); diff != "" {
				t.Error(diff)
			}
			if (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

func FuzzMounts(f *testing.F) {
	f.Add(hybrid, "4:memory:/box/in\n")
	f.Add(unified, "0::/a\n")
	f.Fuzz(func(t *testing.T, mountinfo, membership string) {
		trees, err := treesOf(parseMounts(mountinfo, limiters), parseMembership(membership), "base")
		if (len(trees) == 0) != (err != nil) {
			t.Errorf("%d trees and %v", len(trees), err)
		}
	})
}
