package supervisor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/uml"
)

// guestCgroups is the mount point of the guest's hierarchy of version 2.
const guestCgroups = "/sys/fs/cgroup"

// TestCgroupVersion2 runs the tests of this file in User-Mode Linux.
func TestCgroupVersion2(t *testing.T) {
	t.Parallel()
	uml.Require(t)
	faulty := testos.ReadFile(t, faultyProgram)
	uml.Run(t, uml.Machine{Files: map[string][]byte{"faulty": faulty}})
}

// moveTo puts this process into a cgroup below the root for the rest of the test. The
// root passes the controllers on to it, as systemd has it do for units.
func moveTo(t *testing.T, cgroup string) {
	t.Helper()
	dir := filepath.Join(guestCgroups, cgroup)
	testos.MkdirAll(t, dir, 0o755)
	testos.WriteFile(t, filepath.Join(guestCgroups, "cgroup.subtree_control"), "+memory +cpu +pids", 0)
	self := strconv.Itoa(os.Getpid())
	testos.WriteFile(t, filepath.Join(dir, "cgroup.procs"), self, 0)
	t.Cleanup(func() {
		if err := os.WriteFile(filepath.Join(guestCgroups, "cgroup.procs"), []byte(self), 0); err != nil {
			t.Error(err)
		}
	})
}

func TestGuestPluginsAreLimited(t *testing.T) {
	uml.In(t)
	for name, cgroup := range map[string]string{"in the root": "", "in a delegated unit": "unit.service/host"} {
		t.Run(name, func(t *testing.T) {
			moveTo(t, cgroup)
			limit := int64(64 << 20)
			h := startHost(t, install(t, "eats-memory", "forks-twice"), confined("eats-memory", sandbox.Policy{MemoryBytes: limit}))
			dirs := cgroupsOf("eats-memory", h.root.Cgroups())
			if len(dirs) != 1 {
				t.Fatalf("cgroups %v, want one", dirs)
			}
			for file, want := range map[string]string{"memory.max": "67108864", "pids.max": "512", "cgroup.procs": strconv.Itoa(h.plugin("eats-memory").PID)} {
				if got, err := os.ReadFile(filepath.Join(dirs[0], file)); strings.TrimSpace(string(got)) != want {
					t.Errorf("%s is %s (%v), want %s", file, got, err, want)
				}
			}
			p, i := h.pinned("eats-memory")
			if _, err := observe(t.Context(), i); err == nil {
				t.Error("it has what it wanted")
			}
			p.Release()
			eventually(t, "it is killed for its memory", func() bool {
				return strings.Contains(h.plugin("eats-memory").LastError, "it had reached its memory limit")
			})
			if n := len(processesOf(h.sockets)); n < 2 {
				t.Errorf("%d processes, want a plugin and its orphan at least", n)
			}
			h.stop()
		})
	}
}

// Where the host is not alone there can be no limits, but what a plugin leaves
// behind is still found.
func TestGuestPluginsInACgroupOfOthers(t *testing.T) {
	uml.In(t)
	moveTo(t, "shared.service")
	h := startHost(t, install(t, "forks-twice"))
	if n := len(processesOf(h.sockets)); n != 2 {
		t.Errorf("%d processes, want a plugin and its orphan", n)
	}
	if dirs := cgroupsOf("forks-twice", h.root.Cgroups()); len(dirs) != 1 {
		t.Errorf("cgroups %v, want one", dirs)
	}
	want(t, h.log.String(), "plugins run without some of their limits", "DelegateSubgroup=host")
	h.stop()
}
