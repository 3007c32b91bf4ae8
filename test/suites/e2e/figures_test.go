package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cadvisor "github.com/google/cadvisor/lib/fs"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/test/harness/stack"
)

// The figures of the disk plugin, of cAdvisor and of du are the same, to the byte
// and the inode, on the same trees at rest.
func TestFiguresAgree(t *testing.T) {
	for _, e := range engines(t) {
		t.Run(e.name, func(t *testing.T) {
			n := newSite(t, dedicated(e))
			pod := variety(t, n.Stack)
			awaitStats(t, n.Runtime)
			plugin := diskPlugin(t, n.Stack)
			compareNode(t, n.Dir, plugin)
			comparePod(t, plugin, pod)
		})
	}
}

// variety is a pod with everything that is easily counted wrongly: hard links,
// sparse files, symlinks, empty directories, rotated logs, several filesystems.
func variety(t *testing.T, n *stack.Stack) *stack.Pod {
	t.Helper()
	p := run(t, n, sketch{name: "variety", emptyDirs: map[string]string{"cache": "", "empty": ""}})
	const script = `
mkdir -p %[1]s/deep/er/still %[1]s/void
dd if=/dev/zero of=%[1]s/deep/file bs=1000 count=777 2>/dev/null
ln %[1]s/deep/file %[1]s/deep/er/link
ln %[1]s/deep/file %[1]s/other-link
ln -s /etc %[1]s/outside
ln -s . %[1]s/deep/loop
truncate -s 100M %[1]s/sparse
dd if=/dev/zero of=%[1]s/sparse bs=4096 count=3 seek=1000 conv=notrunc 2>/dev/null
i=0; while [ $i -lt 300 ]; do echo small >%[1]s/deep/er/still/$i; i=$((i+1)); done
`
	must(t, p.Exec(t.Context(), "main", fmt.Sprintf(script, "/data")))
	must(t, p.Exec(t.Context(), "main", fmt.Sprintf(script, "/cache")))
	must(t, p.Exec(t.Context(), "main", linesToLog(3*mib)))
	rotated := filepath.Join(p.LogDir(), "main", "0.log.20260101-000000.gz")
	must(t, os.WriteFile(rotated, make([]byte, 123456), 0o644))
	for _, dir := range []string{n.RuntimeRootDir, n.KubeletRootDir} {
		f, err := os.Open(dir)
		must(t, err)
		must(t, unix.Syncfs(int(f.Fd())), f.Close())
	}
	return p
}

// diskPlugin is the disk plugin in this process, as a program that wraps it has it.
func diskPlugin(t *testing.T, n *stack.Stack) sdk.Plugin {
	t.Helper()
	p := disk.New()
	must(t, p.Configurer.Configure(t.Context(), eviction.ConfigureRequest{Node: eviction.NodeFacts{
		NodeName: "test", RootDir: "/", CgroupRoot: n.CgroupRoot, CgroupDriver: "cgroupfs",
		KubeletRootDir: n.KubeletRootDir, PodLogsDir: n.PodLogsDir,
		RuntimeEndpoint: "unix://" + n.Socket, ImageEndpoint: "unix://" + n.Socket,
	}}))
	return p
}

func compareNode(t *testing.T, dir string, p sdk.Plugin) {
	t.Helper()
	signals := []eviction.Signal{
		eviction.NodeFsAvailable, eviction.NodeFsInodesFree, eviction.ImageFsAvailable,
		eviction.ImageFsInodesFree, eviction.ContainerFsAvailable, eviction.ContainerFsInodesFree,
	}
	reply, err := p.Observer.Observe(t.Context(), eviction.ObserveRequest{PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Signals: signals})
	must(t, err)
	info, err := cadvisor.NewFsInfo(cadvisor.Context{})
	must(t, err)
	for _, o := range reply.Observations {
		point := filepath.Join(dir, "images")
		if strings.HasPrefix(string(o.Signal), "nodefs.") {
			point = filepath.Join(dir, "node")
		}
		of, err := info.GetFsInfoForPath(map[string]struct{}{point: {}})
		must(t, err)
		if len(of) != 1 {
			t.Fatalf("cAdvisor knows %d filesystems at %s, want 1", len(of), point)
		}
		available, capacity := int64(of[0].Available), int64(of[0].Capacity)
		if isCount(string(o.Signal)) {
			available, capacity = int64(*of[0].InodesFree), int64(*of[0].Inodes)
		}
		same(t, fmt.Sprintf("%s of %s", o.Signal, filepath.Base(point)), o.Available, available, "cAdvisor")
		same(t, "its capacity", o.Capacity, capacity, "cAdvisor")
	}
}

func comparePod(t *testing.T, p sdk.Plugin, pod *stack.Pod) {
	t.Helper()
	var m eviction.Measurement
	var once sync.Once
	row := eviction.Pod{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
		Volumes: []eviction.Volume{
			{Name: "cache", Kind: "emptyDir", CountsForRanking: true}, {Name: "empty", Kind: "emptyDir", CountsForRanking: true},
		},
		Containers: []eviction.Container{{Name: "main", ID: pod.ContainerIDs["main"]}},
	}
	must(t, p.Measurer.Measure(t.Context(), eviction.MeasureRequest{
		PassView: eviction.PassView{Pass: 1, View: eviction.ViewBefore}, Detail: eviction.DetailContainers,
		Signals: []eviction.Signal{eviction.NodeFsAvailable, eviction.NodeFsInodesFree}, Pods: []eviction.Pod{row},
	}, func(got eviction.Measurement) { once.Do(func() { m = got }) }))
	if m.State != eviction.Measured || len(m.Containers) != 1 || len(m.Volumes) != 2 {
		t.Fatalf("measured %+v, want one container and two volumes", m)
	}
	sum := int64(0)
	check := func(what string, bytes, inodes eviction.Figure, paths ...string) {
		t.Helper()
		var byDu, byCadvisor [2]int64
		for _, path := range paths {
			use, err := cadvisor.GetDirUsage(path)
			must(t, err)
			byCadvisor[0], byCadvisor[1] = byCadvisor[0]+int64(use.Bytes), byCadvisor[1]+int64(use.Inodes)
			byDu[0], byDu[1] = byDu[0]+du(t, "-B1", path), byDu[1]+du(t, "--inodes", path)
		}
		same(t, what+", bytes", bytes.Value, byCadvisor[0], "cAdvisor")
		same(t, what+", bytes", bytes.Value, byDu[0], "du")
		same(t, what+", inodes", inodes.Value, byCadvisor[1], "cAdvisor")
		same(t, what+", inodes", inodes.Value, byDu[1], "du")
		sum += bytes.Value
	}
	c := m.Containers[0]
	logs, err := filepath.Glob(filepath.Join(pod.LogDir(), "main", "*"))
	must(t, err)
	check("the writable layer", c.RootfsUsedBytes, c.RootfsInodesUsed, upperDir(t, pod))
	check("the logs", c.LogsUsedBytes, c.LogsInodesUsed, logs...)
	for _, v := range m.Volumes {
		check("the volume "+v.Name, v.UsedBytes, v.InodesUsed, pod.EmptyDir(v.Name))
	}
	same(t, "all of the pod, bytes", m.EphemeralStorageUsedBytes.Value, sum, "the sum")
}

func same(t *testing.T, what string, got, want int64, by string) {
	t.Helper()
	t.Logf("  %-42s %12d   by %-8s %12d", what, got, by, want)
	if got != want {
		t.Errorf("%s: %d, by %s %d", what, got, by, want)
	}
}

// upperDir is where the writable layer of the pod's container is, by the mounts
// that its process sees.
func upperDir(t *testing.T, pod *stack.Pod) string {
	t.Helper()
	processes := pod.ContainerProcesses("main")
	if len(processes) == 0 {
		t.Fatal(errors.New("the container has no process"))
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", processes[0]))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] != "/" {
			continue
		}
		for option := range strings.SplitSeq(f[3], ",") {
			if dir, ok := strings.CutPrefix(option, "upperdir="); ok {
				return dir
			}
		}
	}
	t.Fatalf("the container's root is no overlay: %s", raw)
	return ""
}
