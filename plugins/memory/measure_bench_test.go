package memory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/testos"
)

// maxOverFloor is the budget: what Measure may take of the time that the kernel
// takes to render the same files. It is printed next to what it took, which is
// no failure: the machine may be busy with something else.
const maxOverFloor = 1.25

// BenchmarkMeasure measures real cgroups in three ways by turns, so that all see
// the same machine: the floor (pread of the same files, nothing parsed), the
// plugin, and what one would write first (os.ReadFile and strings).
func BenchmarkMeasure(b *testing.B) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		b.Skip("needs root: run make bench")
	}
	h, err := nodefs.FS{}.MemoryHierarchy()
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{110, 500, 1000} {
		b.Run(strconv.Itoa(n)+"pods", func(b *testing.B) { benchmarkMeasure(b, h, n) })
	}
}

func benchmarkMeasure(b *testing.B, h nodefs.Hierarchy, n int) {
	root := fmt.Sprintf("/evictd-measure-%d-%d", os.Getpid(), n)
	pods, dirs := makePods(b, h, root, n)
	p := new(plugin)
	if err := p.configure(b.Context(), eviction.NodeFacts{RootDir: "/", CgroupRoot: root, CgroupDriver: "cgroupfs"}, config{}); err != nil {
		b.Fatal(err)
	}
	held, err := p.current.Hold()
	if err != nil {
		b.Fatal(err)
	}
	defer held.Release()
	node := held.Value
	req := eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: []eviction.Signal{eviction.MemoryAvailable}, Pods: pods}
	ctx := b.Context()
	ways := []struct {
		name string
		run  func() error
		took []time.Duration
	}{
		{name: "floor", run: floor(b, h, dirs)},
		{name: "plugin", run: func() error { return measureAll(ctx, p, req) }},
		{name: "readfile", run: func() error { return readFiles(h, dirs) }},
	}
	for _, w := range ways { // open, warm
		if err := w.run(); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		for i := range ways {
			start := time.Now()
			if err := ways[i].run(); err != nil {
				b.Fatal(err)
			}
			ways[i].took = append(ways[i].took, time.Since(start))
		}
	}
	var median [3]float64
	for i := range ways {
		slices.Sort(ways[i].took)
		median[i] = float64(ways[i].took[len(ways[i].took)/2])
		b.ReportMetric(median[i]/1e6, ways[i].name+"-ms")
	}
	var buffer nodefs.Buffer
	reading := testing.AllocsPerRun(5, func() {
		for i := range pods {
			if _, err := node.Pods.Read(pods[i].UID, string(pods[i].QoSClass), &buffer); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.ReportMetric(0, "ns/op") // the three together mean nothing
	b.ReportMetric(median[1]/median[0], "x-floor")
	b.ReportMetric(maxOverFloor, "x-floor-budget")
	b.ReportMetric(median[2]/median[1], "x-faster-than-readfile")
	b.ReportMetric(reading, "reader-allocs/pass")
	b.ReportMetric(testing.AllocsPerRun(5, func() { _ = measureAll(ctx, p, req) }), "allocs/pass") // checked above
	if reading != 0 {
		b.Errorf("reading %d pods takes %v allocations, want none", n, reading)
	}
}

// measureAll measures and expects figures of all.
func measureAll(ctx context.Context, of eviction.Measurer, req eviction.MeasureRequest) error {
	measured := 0
	err := of.Measure(ctx, req, func(m eviction.Measurement) {
		if m.State == eviction.Measured {
			measured++
		}
	})
	if err == nil && measured != len(req.Pods) {
		return fmt.Errorf("%d of %d pods measured", measured, len(req.Pods))
	}
	return err
}

func makePods(b *testing.B, h nodefs.Hierarchy, root string, n int) (pods []eviction.Pod, dirs []string) {
	b.Helper()
	mkdir := func(cgroup string) string {
		dir := h.Path(cgroup)
		testos.Mkdir(b, dir, 0o755)
		b.Cleanup(func() {
			if err := os.Remove(dir); err != nil {
				b.Error(err)
			}
		})
		if h.Version == nodefs.V2 {
			control := filepath.Join(filepath.Dir(dir), "cgroup.subtree_control")
			testos.WriteFile(b, control, "+memory", 0)
		}
		return dir
	}
	mkdir(root)
	mkdir(root + "/kubepods")
	mkdir(root + "/kubepods/burstable")
	for i := range n {
		uid := fmt.Sprintf("%08d-2222-3333-4444-555555555555", i)
		pods = append(pods, eviction.Pod{UID: uid, QoSClass: eviction.Burstable})
		dirs = append(dirs, mkdir(root+"/kubepods/burstable/pod"+uid))
	}
	return pods, dirs
}

func usageFile(h nodefs.Hierarchy) string {
	if h.Version == nodefs.V1 {
		return "memory.usage_in_bytes"
	}
	return "memory.current"
}

// floor returns what reads the files of all pods and looks at nothing.
func floor(b *testing.B, h nodefs.Hierarchy, dirs []string) func() error {
	b.Helper()
	var fds []int
	for _, dir := range dirs {
		for _, name := range []string{usageFile(h), "memory.stat"} {
			fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = unix.Close(fd) })
			fds = append(fds, fd)
		}
	}
	buf := make([]byte, 8<<10)
	return func() error {
		for _, fd := range fds {
			if _, err := unix.Pread(fd, buf, 0); err != nil {
				return err
			}
		}
		return nil
	}
}

// readFiles is the plain way.
func readFiles(h nodefs.Hierarchy, dirs []string) error {
	key := "inactive_file"
	if h.Version == nodefs.V1 {
		key = "total_inactive_file"
	}
	for _, dir := range dirs {
		content, err := os.ReadFile(filepath.Join(dir, usageFile(h)))
		if err != nil {
			return err
		}
		if _, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err != nil {
			return err
		}
		if content, err = os.ReadFile(filepath.Join(dir, "memory.stat")); err != nil {
			return err
		}
		found := false
		for _, line := range strings.Split(string(content), "\n") { //nolint:modernize // this is the plain way
			if fields := strings.Fields(line); len(fields) == 2 && fields[0] == key {
				if _, err := strconv.ParseInt(fields[1], 10, 64); err != nil {
					return err
				}
				found = true
			}
		}
		if !found {
			return fmt.Errorf("%s: no %s", dir, key)
		}
	}
	return nil
}
