package nodefs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

// tree is a node of version 2 with these cgroups, made in this order.
func tree(t *testing.T, cgroups ...string) FS {
	t.Helper()
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "memory pids\n")
	made := make([]string, len(cgroups)) // by inode number: other filesystems number as they like
	for i := range made {
		made[i] = filepath.Join(root, strconv.Itoa(i))
		testos.Mkdir(t, made[i], 0o755)
	}
	slices.SortFunc(made, func(a, b string) int { return cmp.Compare(inode(t, a), inode(t, b)) })
	for i, c := range cgroups {
		grow(t, FS{Root: root}, filepath.Dir(c))
		testos.Rename(t, made[i], filepath.Join(root, "sys/fs/cgroup", c))
	}
	return FS{Root: root}
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(name, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

func grow(t *testing.T, f FS, cgroup string) {
	t.Helper()
	testos.MkdirAll(t, filepath.Join(f.Root, "sys/fs/cgroup", cgroup), 0o755)
}

func TestTheCgroupsOfPodsShowTheDriver(t *testing.T) {
	for name, c := range map[string]struct {
		root    string
		cgroups []string
		want    FoundDriver
		err     string
		gone    bool
	}{
		"nothing yet":                       {root: "/", err: "neither", gone: true},
		"cgroupfs":                          {root: "/", cgroups: []string{"kubepods/burstable/podx"}, want: FoundDriver{Driver: "cgroupfs", HasPods: true}},
		"cgroupfs, guaranteed":              {root: "/", cgroups: []string{"kubepods/podx"}, want: FoundDriver{Driver: "cgroupfs", HasPods: true}},
		"cgroupfs, no pod yet":              {root: "/", cgroups: []string{"kubepods/burstable"}, want: FoundDriver{Driver: "cgroupfs"}},
		"systemd":                           {root: "/", cgroups: []string{"kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podx.slice"}, want: FoundDriver{Driver: "systemd", HasPods: true}},
		"systemd, guaranteed":               {root: "/", cgroups: []string{"kubepods.slice/kubepods-podx.slice"}, want: FoundDriver{Driver: "systemd", HasPods: true}},
		"systemd, no pod yet":               {root: "/", cgroups: []string{"kubepods.slice/kubepods-burstable.slice"}, want: FoundDriver{Driver: "systemd"}},
		"systemd, cgroupfs left over":       {root: "/", cgroups: []string{"kubepods/burstable", "kubepods.slice/kubepods-podx.slice"}, want: FoundDriver{Driver: "systemd", HasPods: true}},
		"cgroupfs, systemd left over":       {root: "/", cgroups: []string{"kubepods/podx", "kubepods.slice/kubepods-burstable.slice"}, want: FoundDriver{Driver: "cgroupfs", HasPods: true}},
		"both without pods":                 {root: "/", cgroups: []string{"kubepods", "kubepods.slice"}, err: "without pods"},
		"changed to systemd":                {root: "/", cgroups: []string{"kubepods/podx", "kubepods/burstable/pody", "kubepods.slice/kubepods-podx.slice"}, want: FoundDriver{Driver: "systemd", HasPods: true}},
		"changed to cgroupfs":               {root: "/", cgroups: []string{"kubepods.slice/kubepods-podx.slice", "kubepods/besteffort/podx"}, want: FoundDriver{Driver: "cgroupfs", HasPods: true}},
		"a class made last is no pod":       {root: "/", cgroups: []string{"kubepods.slice/kubepods-podx.slice", "kubepods/podx", "kubepods.slice/kubepods-burstable.slice"}, want: FoundDriver{Driver: "cgroupfs", HasPods: true}},
		"below a root":                      {root: "/a-b/c", cgroups: []string{"a_b.slice/a_b-c.slice/a_b-c-kubepods.slice/a_b-c-kubepods-burstable.slice/a_b-c-kubepods-burstable-podx.slice"}, want: FoundDriver{Driver: "systemd", HasPods: true}},
		"another root's pods are no answer": {root: "/a", cgroups: []string{"kubepods/podx"}, err: "neither", gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tree(t, c.cgroups...).FindCgroupDriver(c.root)
			got.Path = ""
			if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || errors.Is(err, ErrGone) != c.gone {
				t.Errorf("found %+v, %v, want %+v, %q, gone %v", got, err, c.want, c.err, c.gone)
			}
		})
	}
}

// What is there before any pod is may be left over from another driver.
func TestTheDriverIsLookedForUntilThereArePods(t *testing.T) {
	f := tree(t, "kubepods")
	n, err := f.Naming("/", "")
	if err != nil {
		t.Fatal(err)
	}
	kubepods := func() string {
		t.Helper()
		names, err := n.Names()
		if err != nil {
			t.Fatal(err)
		}
		return names.Kubepods()
	}
	if got := kubepods(); got != "/kubepods" {
		t.Errorf("before there are pods: %s, want what is there", got)
	}
	grow(t, f, "kubepods.slice/kubepods-podx.slice")
	if got := kubepods(); got != "/kubepods.slice" {
		t.Errorf("with a pod: %s, want where it is", got)
	}
	grow(t, f, "kubepods/podx")
	if got := kubepods(); got != "/kubepods.slice" {
		t.Errorf("later: %s, want what was found", got)
	}
}

func TestADriverThatWasGivenIsNotLookedFor(t *testing.T) {
	n, err := tree(t, "kubepods/podx").Naming("/", "systemd")
	if err != nil {
		t.Fatal(err)
	}
	if names, err := n.Names(); err != nil || names.Kubepods() != "/kubepods.slice" {
		t.Errorf("%s, %v, want the given driver's name", names.Kubepods(), err)
	}
	if _, err := (FS{}).Naming("/", "none"); err == nil {
		t.Error("a driver that there is not was accepted")
	}
}

// The files of a test's directory are numbered in any order, cgroups in that of their creation; their
// times do not show it: the older one is looked at last here.
func TestTheKernelNumbersCgroupsInTheOrderOfTheirCreation(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	h, err := FS{}.PodsHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []string{Cgroupfs, Systemd} {
		root := fmt.Sprintf("/evictd-naming-%d-%s", os.Getpid(), last)
		names, err := NewCgroupNames(root, last)
		if err != nil {
			t.Fatal(err)
		}
		for _, pod := range []string{names.other().pod("old", "Guaranteed"), names.pod("new", "Burstable")} {
			made := h.Path(pod)
			testos.MkdirAll(t, made, 0o755)
			defer func() {
				for ; os.Remove(made) == nil; made = filepath.Dir(made) { // until it has another child
				}
			}()
		}
		if found, err := (FS{}).FindCgroupDriver(root); err != nil || found.Driver != last || !found.HasPods {
			t.Errorf("%+v, %v, want %s, whose pod was made last", found, err, last)
		}
	}
}

// The cgroup driver was changed in place. The pods of one tree had no figures, or those of both.
func TestEachPodIsFoundWhereItIs(t *testing.T) {
	const old, young = "kubepods/burstable/podold", "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podyou_ng.slice"
	for name, c := range map[string]struct {
		root, driver, uid, class string
		cgroups                  []string
		want                     string // "" if it is gone
		tried                    int    // 0 for all six
	}{
		"no driver, new tree":              {uid: "you-ng", class: "Burstable", cgroups: []string{old, young}, want: young, tried: 1},
		"no driver, old tree":              {uid: "old", class: "Burstable", cgroups: []string{old, young}, want: old, tried: 2},
		"the configured driver is right":   {driver: Cgroupfs, uid: "old", class: "Burstable", cgroups: []string{old, young}, want: old, tried: 1},
		"the configured driver is not":     {driver: Cgroupfs, uid: "you-ng", class: "Burstable", cgroups: []string{young}, want: young, tried: 2},
		"in both: that of the kubelet":     {uid: "old", class: "Guaranteed", cgroups: []string{"kubepods/podold", "kubepods.slice/kubepods-podold.slice"}, want: "kubepods.slice/kubepods-podold.slice", tried: 1},
		"in both, as configured":           {driver: Cgroupfs, uid: "old", class: "Guaranteed", cgroups: []string{"kubepods/podold", "kubepods.slice/kubepods-podold.slice"}, want: "kubepods/podold", tried: 1},
		"guaranteed, in the old tree":      {uid: "x", class: "Guaranteed", cgroups: []string{"kubepods/podx", young}, want: "kubepods/podx", tried: 2},
		"another class, in the old tree":   {uid: "x", class: "Burstable", cgroups: []string{"kubepods/besteffort/podx", young}, want: "kubepods/besteffort/podx", tried: 6},
		"no class":                         {uid: "you-ng", cgroups: []string{old, young}, want: young, tried: 3},
		"both trees, neither with pods":    {uid: "x", class: "BestEffort", cgroups: []string{"kubepods", "kubepods.slice"}},
		"no tree":                          {uid: "x", class: "BestEffort"},
		"others have a cgroup":             {uid: "x", class: "BestEffort", cgroups: []string{old, young}},
		"below a root with a dash":         {root: "/a-b", uid: "x-y", class: "Guaranteed", cgroups: []string{"a_b.slice/a_b-kubepods.slice/a_b-kubepods-podx_y.slice", "a-b/kubepods/podz"}, want: "a_b.slice/a_b-kubepods.slice/a_b-kubepods-podx_y.slice", tried: 2},
		"a tree of another root is none's": {root: "/a-b", uid: "old", class: "Burstable", cgroups: []string{old, young}},
	} {
		t.Run(name, func(t *testing.T) {
			f := tree(t, c.cgroups...)
			h, err := f.PodsHierarchy()
			if err != nil {
				t.Fatal(err)
			}
			n, err := f.Naming(c.root, c.driver)
			if err != nil {
				t.Fatal(err)
			}
			var tried []string
			err = n.Pod(c.uid, c.class, func(cgroup string) error {
				if tried = append(tried, cgroup[1:]); h.Exists(cgroup) {
					return nil
				}
				return ErrGone
			})
			if c.want == "" {
				if !errors.Is(err, ErrGone) || len(tried) != 6 {
					t.Errorf("%v after %q, want gone after six names", err, tried)
				}
			} else if err != nil || len(tried) != c.tried || tried[len(tried)-1] != c.want {
				t.Errorf("%v after %q, want %s as the name %d", err, tried, c.want, c.tried)
			}
		})
	}
}

func TestAPodWhoseCgroupCannotBeReadIsNotSearchedFurther(t *testing.T) {
	broken := errors.New("broken")
	calls := 0
	err := naming(t, Systemd).Pod("x", "Burstable", func(string) error { calls++; return broken })
	if err != broken || calls != 1 { //nolint:errorlint // the very same
		t.Errorf("%v after %d calls, want the first error", err, calls)
	}
}

// Only version 1 without the memory controller (cgroup_disable=memory) has no other hierarchy.
func TestPodsAreFoundWithTheHierarchyOfPIDsOnly(t *testing.T) {
	f := FS{Root: t.TempDir()}
	write(t, f.Root, "sys/fs/cgroup/pids/tasks", "")
	write(t, f.Root, "sys/fs/cgroup/pids/kubepods.slice/kubepods-podx.slice/pids.current", "7\n")
	write(t, f.Root, "sys/fs/cgroup/pids/kubepods/besteffort/pody/pids.current", "8\n")
	h, err := f.PodsHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Naming("/", "")
	if err != nil {
		t.Fatal(err)
	}
	pods := h.PodTasks(n)
	for uid, want := range map[string]int64{"x": 7, "y": 8} {
		if got, err := pods.Read(uid, "BestEffort", &Buffer{}); got != want || err != nil {
			t.Errorf("%s: %d tasks, %v, want %d", uid, got, err, want)
		}
	}
}

// With pods in both trees allocatableMemory.available was unknown.
func TestAllPodsAreThoseOfTheTreeWithTheNewestPod(t *testing.T) {
	f := tree(t, "kubepods/podx", "kubepods.slice/kubepods-pody.slice")
	for cgroup, usage := range map[string]string{"kubepods": "1\n", "kubepods.slice": "2\n"} {
		write(t, f.Root, "sys/fs/cgroup/"+cgroup+"/memory.max", "max\n")
		write(t, f.Root, "sys/fs/cgroup/"+cgroup+"/memory.current", usage)
		write(t, f.Root, "sys/fs/cgroup/"+cgroup+"/memory.stat", "inactive_file 0\n")
	}
	h, err := f.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.Naming("/", "")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := h.AllPodsMemory(n).Read(&Buffer{}); s.UsageBytes != 2 || err != nil {
		t.Errorf("%d bytes, %v, want 2", s.UsageBytes, err)
	}
}
