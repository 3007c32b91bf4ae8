package stack

import "testing"

func TestStartTicksSurviveOddCommandNames(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	for _, name := range []string{"(sh)", "(a b)", "(x) S 9 (y)"} {
		got, err := parseStartTicks([]byte("12 " + name + rest))
		if err != nil || got != 4711 {
			t.Errorf("parseStartTicks with command %q = %d, %v, want 4711", name, got, err)
		}
	}
	if _, err := parseStartTicks([]byte("12 (sh) S 1")); err == nil {
		t.Error("a short stat was accepted")
	}
}

func TestOnlyOwnDeadShimsAreReaped(t *testing.T) {
	for stat, want := range map[string]bool{
		"12 (containerd-shim) Z 7 1 1 0":  true,
		"12 (containerd-shim) S 7 1 1 0":  false,
		"12 (containerd-shim) Z 71 1 1 0": false,
		"12 (sh) Z 7 1 1 0":               false,
	} {
		if pid, ok := parseDeadShim([]byte(stat), 7); ok != want || (ok && pid != 12) {
			t.Errorf("parseDeadShim(%q) = %d, %v, want %v", stat, pid, ok, want)
		}
	}
}

func TestTrackerPrefersTheMemoryHierarchy(t *testing.T) {
	const (
		memory  = "33 32 0:30 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
		pids    = "34 32 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
		unified = "35 32 0:32 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
		other   = "36 32 0:33 / / rw - ext4 /dev/vda rw\n"
	)
	for name, c := range map[string]struct{ mountinfo, want string }{
		"v1":     {other + pids + memory, "/sys/fs/cgroup/memory"},
		"hybrid": {unified + pids + memory, "/sys/fs/cgroup/memory"},
		"v2":     {other + unified, "/sys/fs/cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tracker(parseHierarchies([]byte(c.mountinfo)))
			if err != nil || got.mount != c.want {
				t.Errorf("tracker = %q, %v, want %q", got.mount, err, c.want)
			}
		})
	}
	if _, err := tracker(parseHierarchies([]byte(pids))); err == nil {
		t.Error("a machine without a memory cgroup was accepted")
	}
}
