package nodefs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree is a node of version 2 with these cgroups.
func tree(t *testing.T, cgroups ...string) FS {
	t.Helper()
	root := t.TempDir()
	write(t, root, "sys/fs/cgroup/cgroup.controllers", "memory pids\n")
	for _, c := range cgroups {
		grow(t, FS{Root: root}, c)
	}
	return FS{Root: root}
}

func grow(t *testing.T, f FS, cgroup string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(f.Root, "sys/fs/cgroup", cgroup), 0o755); err != nil {
		t.Fatal(err)
	}
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
		"both with pods":                    {root: "/", cgroups: []string{"kubepods/podx", "kubepods.slice/kubepods-podx.slice"}, err: "both"},
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

func TestWherePodsOfUnknownClassAreFound(t *testing.T) {
	f := tree(t, "kubepods/besteffort/podx")
	h, err := f.MemoryHierarchy()
	if err != nil {
		t.Fatal(err)
	}
	names, err := NewCgroupNames("/", Cgroupfs)
	if err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]bool{"": true, "BestEffort": true, "Burstable": false} {
		got, err := h.FindPod(names, "x", class)
		if want != (got == "/kubepods/besteffort/podx") || want != (err == nil) || !want && !errors.Is(err, ErrGone) {
			t.Errorf("class %q: %q, %v, want found: %v", class, got, err, want)
		}
	}
	if _, err := h.FindPod(names, "../x", ""); err == nil || errors.Is(err, ErrGone) {
		t.Error("a uid that leaves its directory was looked for")
	}
}
