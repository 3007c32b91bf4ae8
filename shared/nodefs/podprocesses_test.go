package nodefs

import (
	"errors"
	"maps"
	"os"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/testos"
)

// populate makes cgroups of one version, with a process in each of running.
func populate(t *testing.T, v Version, running, empty []string) FS {
	t.Helper()
	f := FS{Root: t.TempDir()}
	at, file, yes, no := "sys/fs/cgroup", "cgroup.events", "populated 1\nfrozen 0\n", "populated 0\nfrozen 0\n"
	if v == V1 {
		at, file, yes, no = "sys/fs/cgroup/memory", "cgroup.procs", "12\n", ""
		write(t, f.Root, at+"/memory.usage_in_bytes", "1\n")
	} else {
		write(t, f.Root, at+"/cgroup.controllers", "memory pids\n")
	}
	content := map[string]string{}
	for _, c := range empty {
		content[c] = no
	}
	for _, c := range running {
		content[c] = yes
	}
	for c, text := range content {
		write(t, f.Root, path.Join(at, c, file), text)
		for up := path.Dir(c); up != "."; up = path.Dir(up) {
			if _, listed := content[up]; !listed {
				above := no
				if v == V2 && slices.ContainsFunc(running, func(r string) bool { return len(r) > len(up) && r[:len(up)+1] == up+"/" }) {
					above = yes
				}
				write(t, f.Root, path.Join(at, up, file), above)
			}
		}
	}
	return f
}

type runningPod struct {
	UID        string
	Containers []string
}

// Without a list from the runtime no pod could be evicted.
func TestRunningPodsAreThoseWithAProcess(t *testing.T) {
	const burstable = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"
	for name, c := range map[string]struct {
		root           string
		running, empty []string
		want           []runningPod
	}{
		"all classes, by uid": {
			running: []string{"kubepods/podc/1", "kubepods/burstable/pod11-b/2", "kubepods/besteffort/poda/3"},
			want:    []runningPod{{"11-b", []string{"2"}}, {"a", []string{"3"}}, {"c", []string{"1"}}},
		},
		"both trees": {
			running: []string{"kubepods/podold/1", burstable + "11_22.slice/cri-containerd-2.scope"},
			want:    []runningPod{{"11-22", []string{"2"}}, {"old", []string{"1"}}},
		},
		"a pod in both trees is one": {
			running: []string{"kubepods/burstable/pod1-2/b", burstable + "1_2.slice/cri-containerd-a.scope"},
			want:    []runningPod{{"1-2", []string{"a", "b"}}},
		},
		"a leftover in the other tree": {
			running: []string{burstable + "1_2.slice/cri-containerd-a.scope"}, empty: []string{"kubepods/podz/c", "kubepods/besteffort/pod1-2"},
			want: []runningPod{{"1-2", []string{"a"}}},
		},
		"names of runtimes": {
			running: []string{burstable + "x.slice/cri-containerd-a.scope", burstable + "x.slice/crio-b.scope", burstable + "x.slice/docker-c.scope", burstable + "x.slice/of-others-d.scope", burstable + "x.slice/e", burstable + "x.slice/crio-f"},
			want:    []runningPod{{"x", []string{"a", "b", "c", "d", "e", "f"}}},
		},
		"conmon is no container": {
			running: []string{burstable + "x.slice/crio-conmon-a.scope", "kubepods/pody/crio-conmon-b"},
			want:    []runningPod{{"x", nil}, {"y", nil}},
		},
		"a container that ended": {running: []string{"kubepods/podx/1"}, empty: []string{"kubepods/podx/2"}, want: []runningPod{{"x", []string{"1"}}}},
		"a process far below":    {running: []string{"kubepods/podx/1/init.scope/far/below"}, want: []runningPod{{"x", []string{"1"}}}},
		"in the pod itself":      {running: []string{"kubepods/podx"}, want: []runningPod{{"x", nil}}},
		"what is no pod's":       {running: []string{"kubepods/other/1", "kubepods/pod/1", "kubepods.slice/kubepods-x.slice/1", "system.slice/podx/1"}},
		"pods in neither tree":   {empty: []string{"kubepods/burstable", "kubepods.slice/kubepods-besteffort.slice"}},
		"below a root with a dash": {
			root:    "/a-b",
			running: []string{"a_b.slice/a_b-kubepods.slice/a_b-kubepods-podx_y.slice/docker-1.scope", "a-b/kubepods/besteffort/podz/2", "kubepods/podother/3"},
			want:    []runningPod{{"x-y", []string{"1"}}, {"z", []string{"2"}}},
		},
	} {
		for _, v := range []Version{V1, V2} {
			t.Run(name, func(t *testing.T) {
				n, err := populate(t, v, c.running, c.empty).Naming(c.root, "")
				if err != nil {
					t.Fatal(err)
				}
				all, err := n.PodCgroups()
				var got []runningPod
				for _, uid := range slices.Sorted(maps.Keys(all)) {
					if p := all[uid](); p.Running {
						got = append(got, runningPod{uid, p.Containers})
					}
				}
				if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
					t.Errorf("version %d: %v, -want +got:\n%s", v, err, diff)
				}
			})
		}
	}
}

func TestRunningPodsOfNoTreeAreAnError(t *testing.T) {
	list := func(f FS) error {
		n, err := f.Naming("/", Systemd)
		if err != nil {
			t.Fatal(err)
		}
		_, err = n.PodCgroups()
		return err
	}
	if err := list(tree(t, "system.slice")); !errors.Is(err, ErrGone) {
		t.Errorf("without kubepods: %v, want gone", err)
	}
	if err := list(FS{Root: t.TempDir()}); err == nil {
		t.Error("without cgroups: no error")
	}
	// A loop of links cannot be listed, not even by root.
	f := tree(t)
	for _, name := range []string{"kubepods", "kubepods.slice"} {
		at := path.Join(f.Root, "sys/fs/cgroup", name)
		testos.Symlink(t, name, at)
		if err := list(f); err == nil || errors.Is(err, ErrGone) {
			t.Errorf("with %s unreadable: %v, want an error that is not gone", name, err)
		}
	}
	at := path.Join(f.Root, "sys/fs/cgroup/kubepods")
	if err := errors.Join(os.Remove(at), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := list(f); err == nil {
		t.Error("one of two cannot be read: no error, its pods would have ended")
	}
}

// A pod with more processes than are read, or on a host without descriptors, would have counted as
// ended while it runs.
func TestAPodWhoseProcessesCannotBeReadMayRun(t *testing.T) {
	for version, file := range map[Version]string{V1: "sys/fs/cgroup/memory/kubepods/podx/cgroup.procs", V2: "sys/fs/cgroup/kubepods/podx/cgroup.events"} {
		f := populate(t, version, []string{"kubepods/podx"}, nil)
		at := path.Join(f.Root, file)
		if err := errors.Join(os.Remove(at), os.Mkdir(at, 0o755)); err != nil { // reading it fails
			t.Fatal(err)
		}
		n, err := f.Naming("/", "")
		if err != nil {
			t.Fatal(err)
		}
		all, err := n.PodCgroups()
		if err != nil || all["x"] == nil || !all["x"]().Running {
			t.Errorf("version %d: %v, %v, want a pod that may run", version, all, err)
		}
	}
}
