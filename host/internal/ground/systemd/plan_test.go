package systemd_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/ground/systemd"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

const (
	cgroups    = "sys/fs/cgroup/"
	slice      = cgroups + "system.slice/"
	containerd = slice + "containerd.service/"
	evictd     = slice + "evictd.service/"
	kubernetes = cgroups + "kube.slice/kube-runtime.slice/"
)

// plan returns a line a unit, and what is wrong. files replace those of testdata/node, "" removes
// one. In the cgroup of the process that listens on the runtime's socket is this test.
func plan(t *testing.T, cgroup string, files map[string]string) (lines []string, err error) {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata/node")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		testos.Put(t, filepath.Join(root, name), text, 0o600)
	}
	write(fmt.Sprintf("proc/%d/cgroup", os.Getpid()), "1:name=systemd:/docker.service\n0::"+cgroup+"\n")
	for name, text := range files {
		if write(name, text); text == "" {
			if err := os.RemoveAll(filepath.Join(root, strings.TrimSuffix(name, "/.keep"))); err != nil {
				t.Fatal(err)
			}
		}
	}
	socket := filepath.Join(root, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	units, err := systemd.Plan(t.Context(), nodefs.FS{Root: root}, "unix://"+socket)
	for _, u := range units {
		lines = append(lines, fmt.Sprintf("%s: uses %d, has %d, wants %d", u.Cgroup, u.UsedBytes>>20, u.NowBytes>>20, u.WantBytes>>20))
	}
	if err != nil {
		err = fmt.Errorf("%s", strings.NewReplacer(root, "ROOT", fmt.Sprint(os.Getpid()), "PID").Replace(err.Error()))
	}
	return lines, err
}

func stat(anon, mapped int) string {
	return fmt.Sprintf("anon %d\nfile %d\nfile_mapped %d\ninactive_file 0\nactive_file 0\n", anon<<20, mapped<<20, mapped<<20)
}

func TestThePlanProtectsServicesAndTheSlicesAbove(t *testing.T) {
	const large = "MemTotal: 16777216 kB\n"
	for name, c := range map[string]struct {
		cgroup string
		files  map[string]string
		want   []string
	}{
		"as much again as half of what is used, 64 MiB of evictd at least": {"/system.slice/containerd.service", nil, []string{
			"/system.slice: uses 108, has 0, wants 184",
			"/system.slice/containerd.service: uses 76, has 0, wants 120",
			"/system.slice/evictd.service: uses 32, has 0, wants 64",
		}},
		"an idle runtime, and an evictd that does not run": {"/system.slice/containerd.service", map[string]string{
			containerd + "memory.stat": stat(10, 10), evictd + "memory.stat": "", evictd + "memory.min": "",
		}, []string{
			"/system.slice: uses 20, has 0, wants 160",
			"/system.slice/containerd.service: uses 20, has 0, wants 96",
			"/system.slice/evictd.service: uses 0, has 0, wants 64",
		}},
		"a third of a small node is the most": {"/system.slice/containerd.service", map[string]string{"proc/meminfo": "MemTotal: 262144 kB\n"}, []string{
			"/system.slice: uses 108, has 0, wants 96",
			"/system.slice/containerd.service: uses 76, has 0, wants 48",
			"/system.slice/evictd.service: uses 32, has 0, wants 48",
		}},
		"a tenth of a large node is the most": {"/system.slice/containerd.service", map[string]string{"proc/meminfo": large, containerd + "memory.stat": stat(3000, 40)}, []string{
			"/system.slice: uses 3072, has 0, wants 1640",
			"/system.slice/containerd.service: uses 3040, has 0, wants 1576",
			"/system.slice/evictd.service: uses 32, has 0, wants 64",
		}},
		"what is in force is not lowered": {"/system.slice/containerd.service", map[string]string{slice + "memory.min": "524288000\n", containerd + "memory.min": "max\n"}, []string{
			"/system.slice: uses 108, has 500, wants 704",
			"/system.slice/containerd.service: uses 76, has 640, wants 640",
			"/system.slice/evictd.service: uses 32, has 0, wants 64",
		}},
		"nested slices, and a cgroup of the service's own, seen from a cgroup namespace": {"/../../kube.slice/kube-runtime.slice/crio.service/main", map[string]string{
			kubernetes + "crio.service/memory.min": "0\n", kubernetes + "crio.service/memory.stat": stat(20, 0),
			kubernetes + "memory.min": "0\n", kubernetes + "memory.stat": stat(0, 0), cgroups + "kube.slice/memory.min": "0\n", cgroups + "kube.slice/memory.stat": stat(0, 0),
		}, []string{
			"/kube.slice: uses 20, has 0, wants 96",
			"/kube.slice/kube-runtime.slice: uses 20, has 0, wants 96",
			"/kube.slice/kube-runtime.slice/crio.service: uses 20, has 0, wants 96",
			"/system.slice: uses 32, has 0, wants 64",
			"/system.slice/evictd.service: uses 32, has 0, wants 64",
		}},
		"evictd has another slice": {"/system.slice/containerd.service", map[string]string{
			slice + "evictd.service/.keep": "", kubernetes + "evictd.service/memory.min": "0\n", kubernetes + "evictd.service/memory.stat": stat(20, 0),
			kubernetes + "memory.min": "0\n", kubernetes + "memory.stat": stat(0, 0), cgroups + "kube.slice/memory.min": "0\n", cgroups + "kube.slice/memory.stat": stat(0, 0),
		}, []string{
			"/kube.slice: uses 20, has 0, wants 64",
			"/kube.slice/kube-runtime.slice: uses 20, has 0, wants 64",
			"/kube.slice/kube-runtime.slice/evictd.service: uses 20, has 0, wants 64",
			"/system.slice: uses 76, has 0, wants 120",
			"/system.slice/containerd.service: uses 76, has 0, wants 120",
		}},
		"evictd is in a pod": {"/system.slice/containerd.service", map[string]string{"etc/systemd/system/evictd.service": ""}, []string{
			"/system.slice: uses 76, has 0, wants 120",
			"/system.slice/containerd.service: uses 76, has 0, wants 120",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan(t, c.cgroup, c.files)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutSystemdOrCgroupV2ThereIsNoPlan(t *testing.T) {
	for name, c := range map[string]struct {
		cgroup string
		files  map[string]string
		want   string
	}{
		"no systemd":            {"/system.slice/containerd.service", map[string]string{"run/systemd/system/.keep": ""}, "stat ROOT/run/systemd/system: no such file or directory: want a node that systemd has booted"},
		"cgroup v1":             {"/system.slice/containerd.service", map[string]string{cgroups + "memory/memory.usage_in_bytes": "0\n", cgroups + "memory/memory.stat": "total_inactive_file 0\n"}, "ROOT/sys/fs/cgroup/memory: memory has cgroup v1 on this node, without memory.min; want cgroup v2"},
		"started by hand":       {"/user.slice/user-0.slice/session-1.scope", nil, `ROOT/s: process PID listens there, in cgroup "/user.slice/user-0.slice/session-1.scope"; want a container runtime that is a service of systemd`},
		"a figure that is none": {"/system.slice/containerd.service", map[string]string{containerd + "memory.min": "much\n"}, `parse ROOT/sys/fs/cgroup/system.slice/containerd.service/memory.min: "much\n" is not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := plan(t, c.cgroup, c.files); err == nil || err.Error() != c.want || len(got) > 0 {
				t.Errorf("%v, %v, want %s", got, err, c.want)
			}
		})
	}
}
