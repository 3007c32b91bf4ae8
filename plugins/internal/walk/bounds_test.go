package walk_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
)

// chain makes a chain of n directories below root, each with a file, and goes
// from descriptor to descriptor as no path is long enough.
func chain(t *testing.T, root string, n int) {
	t.Helper()
	mkdir(t, root)
	at, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	must(t, err)
	for range n {
		must(t, unix.Mknodat(at, "file", unix.S_IFREG|0o600, 0))
		must(t, unix.Mkdirat(at, "deeper", 0o755))
		next, err := unix.Openat(at, "deeper", unix.O_PATH|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.Close(at))
		at = next
	}
	must(t, unix.Close(at))
}

func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}

func TestTreesDeeperThanAnyPath(t *testing.T) {
	const levels, maxOpen = 10_500, 8
	root := filepath.Join(inMemory(t), "deep")
	chain(t, root, levels)
	before := openDescriptors(t)
	w := open(t, root, walk.Options{MaxEntries: 1000, MaxOpen: maxOpen})
	for done := false; !done; {
		var err error
		done, err = w.Continue(t.Context())
		must(t, err)
		if now := openDescriptors(t); now > before+maxOpen {
			t.Fatalf("%d descriptors more, want at most %d", now-before, maxOpen)
		}
	}
	if got := w.Usage().Inodes; got != 2*levels+1 {
		t.Errorf("%d inodes, want %d", got, 2*levels+1)
	}
	if now := openDescriptors(t); now != before {
		t.Errorf("%d descriptors, want %d as before", now, before)
	}
}

// Links to what was counted cost next to nothing, or few files keep a walk from its end.
func TestLinksAreNoEntries(t *testing.T) {
	const files, links = 40, 500
	root := inMemory(t)
	for i := range files {
		dir := filepath.Join(root, strconv.Itoa(i))
		mkdir(t, dir)
		must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 10_000), 0o600))
		for link := range links {
			must(t, os.Link(filepath.Join(dir, "file"), filepath.Join(dir, strconv.Itoa(link))))
		}
	}
	w := open(t, root, walk.Options{MaxEntries: 2*files + 1, MaxLinks: files})
	done, err := w.Continue(t.Context())
	if got := w.Usage().Inodes; !done || err != nil || got != 2*files+1 {
		t.Errorf("done is %t with %d inodes of %d, error %v", done, got, 2*files+1, err)
	}
	// Those that are not remembered are looked at.
	w = open(t, root, walk.Options{MaxEntries: 2*files + 1, MaxLinks: files - 1})
	if done, err = w.Continue(t.Context()); done || err != nil {
		t.Errorf("done is %t although links of a file could not be remembered, error %v", done, err)
	}
	finish(t, w)
	if got := w.Usage().Inodes; got != 2*files+1 {
		t.Errorf("%d inodes, want %d", got, 2*files+1)
	}
}

// Memory does not grow with the number of files, and the walk lets go of its
// buffers between two calls.
func TestMemoryIsFlat(t *testing.T) {
	root := inMemory(t)
	for i := range 20_000 {
		must(t, os.WriteFile(filepath.Join(root, "file-"+strconv.Itoa(i)), nil, 0o600))
	}
	w := open(t, root, walk.Options{MaxEntries: 1000})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	finish(t, w)
	runtime.ReadMemStats(&after)
	if w.Usage().Inodes != 20_001 {
		t.Errorf("%d inodes, want 20001", w.Usage().Inodes)
	}
	if grew, allocs := after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs; grew > 1<<20 || allocs > 200 {
		t.Errorf("20,000 files took %d bytes in %d allocations", grew, allocs)
	}
}

func TestContinueEndsWithItsContext(t *testing.T) {
	root := inMemory(t)
	for i := range 5000 {
		must(t, os.WriteFile(filepath.Join(root, strconv.Itoa(i)), nil, 0o600))
	}
	w := open(t, root, walk.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := w.Continue(ended); done || err != nil || w.Usage().Inodes != 1 {
		t.Errorf("an ended context: done %v, %v, %+v, want nothing done", done, err, w.Usage())
	}
	calls := 0
	for done := false; !done; calls++ {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		var err error
		done, err = w.Continue(ctx)
		must(t, err)
		cancel()
	}
	if calls < 2 {
		t.Errorf("%d call, want it cut short again and again", calls)
	}
	if w.Usage().Inodes != 5001 {
		t.Errorf("%d inodes, want 5001", w.Usage().Inodes)
	}
}

// Out of descriptors, the walk waits for better times.
func TestOutOfDescriptors(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tree")
	chain(t, root, 30)
	w := open(t, root, walk.Options{MaxOpen: 6})
	var was unix.Rlimit
	must(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &was))
	// A descriptor must be below the limit; the highest one in use tells.
	probe, err := unix.Dup(0)
	must(t, err)
	must(t, unix.Close(probe))
	for spare := range uint64(8) {
		few := unix.Rlimit{Cur: uint64(probe) + spare, Max: was.Max}
		must(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &few, nil))
		done, err := w.Continue(t.Context())
		must(t, unix.Prlimit(0, unix.RLIMIT_NOFILE, &was, nil))
		if spare < 3 && (done || !errors.Is(err, unix.EMFILE)) {
			t.Errorf("with %d descriptors: done %v, %v, want too many open files", spare, done, err)
		}
	}
	finish(t, w)
	if got := w.Usage().Inodes; got != 61 {
		t.Errorf("%d inodes, want 61", got)
	}
}

func TestClose(t *testing.T) {
	root := t.TempDir()
	before := openDescriptors(t)
	w, err := walk.Open(root, wide(walk.Options{}))
	must(t, err)
	must(t, w.Close())
	must(t, w.Close())
	if _, err := w.Continue(t.Context()); !errors.Is(err, fs.ErrClosed) || w.Usage().Inodes != 1 {
		t.Errorf("a closed walk: %v, %+v", err, w.Usage())
	}
	if now := openDescriptors(t); now != before {
		t.Errorf("%d descriptors, want %d as before", now, before)
	}
}
