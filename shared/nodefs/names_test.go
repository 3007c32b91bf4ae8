package nodefs

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/testos"
)

func TestCgroupNames(t *testing.T) {
	for name, c := range map[string]struct {
		root, driver, qos string
		kubepods, pod     string
		container         []string
	}{
		"cgroupfs guaranteed": {
			"/", "cgroupfs", "Guaranteed", "/kubepods", "/kubepods/poda-b",
			[]string{"/kubepods/poda-b/c1", "/kubepods/poda-b/crio-c1", "/kubepods/poda-b/other-c1"},
		},
		"cgroupfs burstable below a root": {
			"/my-root/inner/", "cgroupfs", "Burstable", "/my-root/inner/kubepods", "/my-root/inner/kubepods/burstable/poda-b",
			[]string{"/my-root/inner/kubepods/burstable/poda-b/c1", "/my-root/inner/kubepods/burstable/poda-b/crio-c1"},
		},
		"an empty root is the root": {
			"", "cgroupfs", "BestEffort", "/kubepods", "/kubepods/besteffort/poda-b",
			[]string{"/kubepods/besteffort/poda-b/c1", "/kubepods/besteffort/poda-b/crio-c1"},
		},
		"systemd guaranteed": {
			"/", "systemd", "Guaranteed", "/kubepods.slice", "/kubepods.slice/kubepods-poda_b.slice",
			[]string{"/kubepods.slice/kubepods-poda_b.slice/cri-containerd-c1.scope", "/kubepods.slice/kubepods-poda_b.slice/crio-c1.scope", "/kubepods.slice/kubepods-poda_b.slice/docker-c1.scope", "/kubepods.slice/kubepods-poda_b.slice/some-other-c1.scope"},
		},
		"systemd besteffort": {
			"/", "systemd", "BestEffort", "/kubepods.slice",
			"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice",
			[]string{
				"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice/cri-containerd-c1.scope",
				"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b.slice/crio-c1.scope",
			},
		},
		"systemd below a root expands each slice": {
			"/my-root/inner", "systemd", "Guaranteed",
			"/my_root.slice/my_root-inner.slice/my_root-inner-kubepods.slice",
			"/my_root.slice/my_root-inner.slice/my_root-inner-kubepods.slice/my_root-inner-kubepods-poda_b.slice",
			[]string{
				"/my_root.slice/my_root-inner.slice/my_root-inner-kubepods.slice/my_root-inner-kubepods-poda_b.slice/cri-containerd-c1.scope",
				"/my_root.slice/my_root-inner.slice/my_root-inner-kubepods.slice/my_root-inner-kubepods-poda_b.slice/crio-c1.scope",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			names, err := NewCgroupNames(c.root, c.driver)
			if err != nil {
				t.Fatal(err)
			}
			if got := names.Kubepods(); got != c.kubepods {
				t.Errorf("cgroup of all pods %q, want %q", got, c.kubepods)
			}
			pod := names.pod("a-b", c.qos)
			if pod != c.pod {
				t.Errorf("pod %q, want %q", pod, c.pod)
			}
			for _, want := range c.container {
				h := Hierarchy{FS: FS{Root: t.TempDir()}, Version: V2, Dir: "/sys/fs/cgroup"}
				for _, other := range []string{path.Join(pod, "crio-conmon-c1.scope/c1"), path.Join(pod, "xc1"), path.Join(pod, "c10"), path.Join(pod, "x-c1.slice")} {
					makeCgroup(t, h, other)
				}
				if got, err := h.FindContainer(pod, "c1"); !errors.Is(err, ErrGone) {
					t.Errorf("container %q, %v, want none", got, err)
				}
				makeCgroup(t, h, want)
				if got, err := h.FindContainer(pod, "c1"); err != nil || got != want {
					t.Errorf("container %q, %v, want %q", got, err, want)
				}
			}
		})
	}
}

func TestNamesThatWouldLeaveTheCgroupAreRefused(t *testing.T) {
	names := naming(t, "cgroupfs")
	for _, bad := range []string{"", "..", ".", "../../etc", "a/b", "a\x00b", strings.Repeat("x", 129)} {
		if got, err := (Hierarchy{}).FindContainer("/kubepods/podx", bad); err == nil {
			t.Errorf("container id %q became %q", bad, got)
		}
	}
	for _, bad := range []string{"", "/../../x", "a\x00"} {
		err := names.Pod(bad, "Burstable", func(got string) error {
			t.Errorf("pod uid %q became %q", bad, got)
			return nil
		})
		if err == nil {
			t.Errorf("pod uid %q was accepted", bad)
		}
	}
	if err := names.Pod("x", "burstable", nil); err == nil || !strings.Contains(err.Error(), `QoS class "burstable"`) {
		t.Errorf("error = %v, want one about the QoS class", err)
	}
	if _, err := NewCgroupNames("/", "Systemd"); err == nil || !strings.Contains(err.Error(), `cgroup driver "Systemd"`) {
		t.Errorf("error = %v, want one about the driver", err)
	}
}

func FuzzCgroupNames(f *testing.F) {
	f.Add("/", "11111111-2222-3333-4444-555555555555", "abc")
	f.Add("/a/../..", "..", "../x")
	f.Fuzz(func(t *testing.T, root, uid, id string) {
		for _, driver := range []string{"cgroupfs", "systemd"} {
			names, err := NewCgroupNames(root, driver)
			if err != nil {
				t.Fatal(err)
			}
			n, err := FS{}.Naming(root, driver)
			if err != nil {
				t.Fatal(err)
			}
			_ = n.Pod(uid, "Burstable", func(pod string) error {
				if !strings.HasPrefix(pod, names.Kubepods()+"/") {
					t.Errorf("pod %q is not in %q", pod, names.Kubepods())
				}
				return nil
			})
			for _, name := range []string{id, "any-" + id, "any-" + id + ".scope"} {
				if !isOfContainer(name, id) || isOfContainer("x"+name, "x"+id+"x") {
					t.Errorf("%q is not of container %q alone", name, id)
				}
			}
		}
	})
}

func makeCgroup(t *testing.T, h Hierarchy, cgroup string) {
	t.Helper()
	testos.MkdirAll(t, h.Path(cgroup), 0o755)
}
