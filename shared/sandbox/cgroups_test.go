package sandbox

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

func TestCgroupsOfAKilledHostAreSwept(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	key := t.TempDir()
	g := findCgroups(key)
	left, err := g.make("left", 1, Usual())
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("/bin/sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	for _, p := range left.parts {
		if err := p.dir.write("cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
			t.Error(err)
		}
	}
	root := newRoot(t, key)
	defer root.Close()
	root.Sweep()
	if err := sleeper.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("the process that was left: %v, want it killed", err)
	}
	if dirs := root.Cgroups(); len(dirs) > 0 {
		t.Errorf("left: %v", dirs)
	}
}

// A host that follows a killed one removed its own names of programs together with
// the former ones, beside the starts that needed them.
func TestSweepingSparesWhatIsNew(t *testing.T) {
	dir := t.TempDir()
	if _, err := newRoot(t, dir).link("old"); err != nil {
		t.Fatal(err)
	}
	root := newRoot(t, dir)
	removeDirs := root.Sweep()
	link, err := root.link("new")
	if err != nil {
		t.Fatal(err)
	}
	removeDirs(t.Context())
	left, _ := filepath.Glob(dir + "/*/*")
	if len(left) != 1 || left[0] != link {
		t.Errorf("left: %v, want %s alone", left, link)
	}
}

// A host with another directory never comes back to what it left.
func TestStaleCgroupsOfOthersAreSwept(t *testing.T) {
	t.Parallel()
	requireRoot(t)
	other := findCgroups(t.TempDir())
	left, err := other.make("left", 1, Usual())
	if err != nil {
		t.Fatal(err)
	}
	g := findCgroups(t.TempDir())
	if err := g.sweep(); err != nil {
		t.Fatal(err)
	}
	for _, p := range left.parts {
		if _, err := os.Stat(string(p.dir)); err != nil {
			t.Errorf("a young one is gone: %v", err)
		}
		old := time.Now().Add(-2 * staleAfter)
		if err := errors.Join(os.Chtimes(string(p.dir), old, old), os.Chtimes(p.hierarchy.base, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.sweep(); err != nil {
		t.Fatal(err)
	}
	for _, p := range left.parts {
		if _, err := os.Stat(string(p.dir)); err == nil {
			t.Errorf("%s is left", p.dir)
		}
	}
	// Removing what was in the directories has made them young again.
	other.remove()
}

func TestNoPlaceForCgroups(t *testing.T) {
	t.Parallel()
	root := newRoot(t, t.TempDir())
	defer root.Close()
	var reported []string
	root.tell.Unlimited = func(name string, err error) { reported = append(reported, name+": "+err.Error()) }
	root.cgroups = &cgroups{none: errors.New("no cgroups here")}
	prepare := func() (*Sandbox, error) {
		file, err := os.Open("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		return root.Prepare("a", 1, Program{File: file}, Usual())
	}
	for range 3 {
		s, err := prepare()
		if err != nil {
			t.Fatal(err)
		}
		if s.cgroup.parts != nil || s.Status().Unlimited != "no cgroups here" {
			t.Errorf("a group from nowhere: %+v", s.Status())
		}
		s.Close()
		s.RemoveDir()
	}
	if diff := cmp.Diff([]string{"a: no cgroups here"}, reported); diff != "" {
		t.Errorf("told, not once: %s", diff)
	}
	root.Strict = true
	if _, err := prepare(); err == nil || err.Error() != "no cgroups here" {
		t.Errorf("%v, want no process without limits", err)
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
		bases      []string
		err        string
	}{
		"hybrid": {
			hybrid, "4:memory:/box/in\n3:cpu,cpuacct:/\n2:pids:/a b\n0::/\n",
			[]string{"/sys/fs/cgroup/memory/in/base", "/sys/fs/cgroup/cpu,cpuacct/base", "/sys/fs/cgroup/pids/a b/base"},
			"",
		},
		"unified":                    {unified, "0::/system.slice/evictd.service\n", []string{"/sys/fs/cgroup/system.slice/evictd.service/base"}, ""},
		"a delegated unit":           {unified, "0::/system.slice/evictd.service/host\n", []string{"/sys/fs/cgroup/system.slice/evictd.service/base"}, ""},
		"outside of the namespace":   {unified, "0::/../../x\n", nil, "cgroup /../../x is outside of what is mounted at /sys/fs/cgroup"},
		"not below what is mounted":  {hybrid, "4:memory:/boxes\n", nil, "cgroup /boxes is not below /box, which is what is mounted at /sys/fs/cgroup/memory"},
		"nothing":                    {"", "", nil, "no cgroup hierarchy is mounted"},
		"only hierarchies of others": {"36 30 0:32 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices\n", "1:devices:/\n", nil, "no cgroup hierarchy"},
	} {
		t.Run(name, func(t *testing.T) {
			trees, err := hierarchiesOf(c.mounts, c.in, "base")
			var bases []string
			for _, tree := range trees {
				bases = append(bases, tree.base)
			}
			if diff := cmp.Diff(c.bases, bases); diff != "" {
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
		trees, err := hierarchiesOf(mountinfo, membership, "base")
		if (len(trees) == 0) != (err != nil) {
			t.Errorf("%d trees and %v", len(trees), err)
		}
	})
}

func TestTheLowestLimitAboveIsTheBound(t *testing.T) {
	for file, controllers := range map[string][]string{"memory.limit_in_bytes": {"memory"}, "memory.max": nil} {
		point := t.TempDir()
		h := hierarchy{point: point, controllers: controllers, base: filepath.Join(point, "pod/container/plugins")}
		testos.MkdirAll(t, filepath.Dir(h.base), 0o755)
		if got := h.memoryBound(); got != math.MaxInt64 {
			t.Errorf("without limits %d", got)
		}
		for dir, limit := range map[string]string{"pod": "200\n", "pod/container": "300\n", "": "max\n"} {
			testos.WriteFile(t, filepath.Join(point, dir, file), limit, 0o600)
		}
		if got := h.memoryBound(); got != 200 {
			t.Errorf("%s: %d, want the pod's 200", file, got)
		}
	}
}

// It was silently cut to what the pod has, and the plugin was killed in the middle of a ranking.
func TestAMemoryLimitAboveTheCallersOwnIsAnError(t *testing.T) {
	p := Policy{MemoryBytes: math.MaxInt64, MemoryAsked: true}
	bound := findCgroups("").memoryBound()
	if err := p.Possible(); bound < math.MaxInt64 && (err == nil || !strings.Contains(err.Error(), "memoryLimit: 9223372036854775807 bytes, and evictd itself with its plugins has")) {
		t.Errorf("%v, want an error with the bound %d", err, bound)
	}
	if p.MemoryBytes = bound; p.Possible() != nil {
		t.Error(p.Possible())
	}
}
