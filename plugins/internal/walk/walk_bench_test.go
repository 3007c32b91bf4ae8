package walk_test

import (
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/testos"
)

const (
	benchFiles = 100_000
	// maxOverDu and maxAllocs are the budget: of du's time, and per 1000 files. The
	// first is printed next to what it took, which is no failure: the machine may be
	// busy with something else.
	maxOverDu = 1.1
	maxAllocs = 10
)

// BenchmarkWalk counts the same 100,000 files, warm, in three ways by turns, so
// that all see the same machine: du in a process of its own, the walk, and what
// one would write first (filepath.WalkDir). Two walks at once, of a tree each,
// show what a second core is good for.
func BenchmarkWalk(b *testing.B) {
	files := benchFiles
	if testing.Short() {
		files /= 10
	}
	dirs := []string{makeFiles(b, files), makeFiles(b, files)}
	var used walk.Usage
	ways := []struct {
		name string
		run  func() error
		took []time.Duration
	}{
		{name: "du", run: func() error { return exec.Command("du", "-sx", "--block-size=1", dirs[0]).Run() }},
		{name: "walk", run: func() (err error) {
			used, err = count(b, dirs[0])
			return err
		}},
		{name: "walkdir", run: func() error { return walkDir(dirs[0]) }},
		{name: "two-walks", run: func() error { return sideBySide(b, dirs) }},
	}
	for _, w := range ways { // warm
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
	if used.Inodes <= int64(files) {
		b.Errorf("the walk counted %d inodes of %d files", used.Inodes, files)
	}
	var median [4]float64
	for i := range ways {
		slices.Sort(ways[i].took)
		median[i] = float64(ways[i].took[len(ways[i].took)/2])
		b.ReportMetric(median[i]/1e6, ways[i].name+"-ms")
	}
	allocs := testing.AllocsPerRun(3, func() { _ = ways[1].run() }) / float64(files/1000)
	b.ReportMetric(0, "ns/op") // the four together mean nothing
	b.ReportMetric(median[1]/median[0], "x-du")
	b.ReportMetric(maxOverDu, "x-du-budget")
	b.ReportMetric(median[2]/median[1], "x-faster-than-walkdir")
	b.ReportMetric(2*median[1]/median[3], "x-two-at-once")
	b.ReportMetric(allocs, "allocs/1000files")
	if allocs > maxAllocs {
		b.Errorf("the walk takes %.2f allocations per 1000 files, want at most %v", allocs, maxAllocs)
	}
}

// makeFiles makes n files, a thousand in each directory, on the disk.
func makeFiles(tb testing.TB, n int) string {
	tb.Helper()
	root := tb.TempDir()
	for i := range n {
		dir := filepath.Join(root, fmt.Sprintf("d%04d", i/1000))
		if i%1000 == 0 {
			testos.Mkdir(tb, dir, 0o755)
		}
		testos.WriteFile(tb, filepath.Join(dir, fmt.Sprintf("file-%07d", i)), "", 0o644)
	}
	return root
}

// count walks dir in one go.
func count(tb testing.TB, dir string) (walk.Usage, error) {
	w, err := walk.Open(dir, wide(walk.Options{}))
	if err != nil {
		return walk.Usage{}, err
	}
	defer w.Close()
	done, err := w.Continue(tb.Context())
	if !done && err == nil {
		return walk.Usage{}, fmt.Errorf("%s: not done in one go", dir)
	}
	return w.Usage(), err
}

func sideBySide(tb testing.TB, dirs []string) error {
	errs := make([]error, len(dirs))
	var walking sync.WaitGroup
	for i, dir := range dirs {
		walking.Go(func() { _, errs[i] = count(tb, dir) })
	}
	walking.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// walkDir is the plain way.
func walkDir(dir string) error {
	var bytes, inodes int64
	return filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		i, err := d.Info()
		if err != nil {
			return err
		}
		inodes++
		bytes += i.Sys().(*syscall.Stat_t).Blocks * 512
		return nil
	})
}
