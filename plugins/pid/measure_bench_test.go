package pid_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/shared/eviction"
)

// BenchmarkMeasure measures real cgroups in three ways by turns, so that all see
// the same machine: the floor (pread of the same files, nothing parsed), the
// plugin, and what one would write first (os.ReadFile and strings).
func BenchmarkMeasure(b *testing.B) {
	for _, n := range []int{110, 500, 1000} {
		b.Run(strconv.Itoa(n)+"pods", func(b *testing.B) { benchmarkMeasure(b, n) })
	}
}

func benchmarkMeasure(b *testing.B, n int) {
	root := newCgroupRoot(b)
	var pods []eviction.Pod
	var files []string
	for i := range n {
		pod, dir := root.pod(fmt.Sprintf("%08d-2222-3333-4444-555555555555", i))
		pods = append(pods, pod)
		files = append(files, filepath.Join(dir, "pids.current"))
	}
	p := pid.New()
	if err := p.Configurer.Configure(b.Context(), eviction.ConfigureRequest{Node: root.facts()}); err != nil {
		b.Fatal(err)
	}
	req := eviction.MeasureRequest{Detail: eviction.DetailPod, Signals: asked, Pods: pods}
	measureAll := func() error {
		measured := 0
		err := p.Measurer.Measure(b.Context(), req, func(m eviction.Measurement) {
			if m.State == eviction.Measured {
				measured++
			}
		})
		if err == nil && measured != len(pods) {
			err = fmt.Errorf("%d of %d pods measured", measured, len(pods))
		}
		return err
	}
	ways := []struct {
		name string
		run  func() error
		took []time.Duration
	}{{name: "floor", run: floor(b, files)}, {name: "plugin", run: measureAll}, {name: "readfile", run: func() error { return readFiles(files) }}}
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
	allocs := testing.AllocsPerRun(5, func() { _ = measureAll() }) // checked above
	b.ReportMetric(0, "ns/op")                                     // the three together mean nothing
	b.ReportMetric(median[1]/median[0], "x-floor")
	b.ReportMetric(median[2]/median[1], "x-faster-than-readfile")
	b.ReportMetric(allocs, "allocs/pass")
	if allocs > 10 {
		b.Errorf("%v allocations to measure %d pods, want a few for the whole call", allocs, n)
	}
}

// floor returns what reads the files and looks at nothing.
func floor(b *testing.B, files []string) func() error {
	b.Helper()
	var fds []int
	for _, file := range files {
		fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = unix.Close(fd) })
		fds = append(fds, fd)
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
func readFiles(files []string) error {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64); err != nil {
			return err
		}
	}
	return nil
}
