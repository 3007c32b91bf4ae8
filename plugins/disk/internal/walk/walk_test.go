package walk_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
)

func TestHardLinksCountOnce(t *testing.T) {
	root := t.TempDir()
	mkdir(t, root+"/sub")
	write(t, root+"/file", 10_000)
	settle(t, root)
	want := du(t, root)
	must(t, os.Link(root+"/file", root+"/again"))
	must(t, os.Link(root+"/file", root+"/sub/again"))
	if got := inSteps(t, root, walk.Options{MaxEntries: 1}); got != want {
		t.Errorf("with two more names %+v, want %+v", got, want)
	}
}

// Beyond MaxLinks nothing more is remembered; with all their links in the tree
// the files still add up, and a link elsewhere makes them count for less.
func TestLinksBeyondTheBoundCountAsShares(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	for i := range 30 {
		name := root + "/" + strconv.Itoa(i)
		write(t, name, 5000)
		must(t, os.Link(name, name+"-a"))
		must(t, os.Link(name, name+"-b"))
	}
	settle(t, root)
	o := walk.Options{MaxLinks: 7, MaxEntries: 10}
	want := du(t, root)
	if got := inSteps(t, root, o); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for i := range 30 {
		must(t, os.Link(root+"/"+strconv.Itoa(i), elsewhere+"/"+strconv.Itoa(i)))
	}
	got := inSteps(t, root, o)
	if low := want.Inodes - 8; got.Inodes >= want.Inodes || got.Inodes < low || got.Bytes >= want.Bytes {
		t.Errorf("with links outside %+v, want somewhat less than %+v", got, want)
	}
}

func TestSparseFilesCountByTheirBlocks(t *testing.T) {
	root := t.TempDir()
	before := inSteps(t, root, walk.Options{})
	must(t, os.WriteFile(root+"/sparse", nil, 0o600))
	must(t, os.Truncate(root+"/sparse", 1<<40))
	got := inSteps(t, root, walk.Options{})
	if got.Inodes != before.Inodes+1 || got.Bytes != before.Bytes {
		t.Errorf("a sparse terabyte takes %+v, want one inode more than %+v", got, before)
	}
}

// What is no file and no directory counts as an inode and is left alone.
func TestNothingIsFollowedOrOpened(t *testing.T) {
	root := t.TempDir()
	must(t, os.Symlink("loop-b", root+"/loop-a"))
	must(t, os.Symlink("loop-a", root+"/loop-b"))
	must(t, os.Symlink(".", root+"/self"))
	must(t, os.Symlink("/", root+"/everything"))
	must(t, syscall.Mkfifo(root+"/fifo", 0o600))
	must(t, os.WriteFile(root+"/"+strings.Repeat("n", 255), nil, 0o600))
	must(t, os.WriteFile(root+"/\xff\n..\t", nil, 0o600))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(fd)
	t.Chdir(root) // the path of a socket must be short
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", "socket")
	must(t, err)
	defer listener.Close()
	if got, want := inSteps(t, root, walk.Options{MaxEntries: 1}), reference(t, root); got != want || got.Inodes != 9 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOpenWantsADirectory(t *testing.T) {
	root := t.TempDir()
	mkdir(t, root+"/dir")
	must(t, os.Symlink("dir", root+"/link"))
	must(t, syscall.Mkfifo(root+"/fifo", 0o600))
	must(t, os.WriteFile(root+"/file", nil, 0o600))
	for name, want := range map[string]error{
		"gone": fs.ErrNotExist, "dir/gone": fs.ErrNotExist,
		"link": unix.ENOTDIR, "fifo": unix.ENOTDIR, "file": unix.ENOTDIR, "nul\x00": unix.EINVAL,
	} {
		if _, err := walk.Open(root+"/"+name, walk.Options{}); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
			t.Errorf("open %q: %v, want %v", name, err, want)
		}
	}
	w := open(t, root+"/dir", walk.Options{})
	st, err := os.Stat(root)
	must(t, err)
	if got, want := w.Device(), st.Sys().(*syscall.Stat_t).Dev; got != want {
		t.Errorf("device %#x, want %#x", got, want)
	}
}

func TestAFileThatGrowsDoesNotHoldUpTheWalk(t *testing.T) {
	root := t.TempDir()
	for i := range 50 {
		mkdir(t, root+"/"+strconv.Itoa(i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var growing sync.WaitGroup
	growing.Go(func() {
		f, err := os.Create(root + "/log")
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for n := 0; ctx.Err() == nil && n < 64<<20; n += 4096 {
			if _, err := f.Write(make([]byte, 4096)); err != nil {
				t.Error(err)
			}
		}
	})
	for range 50 {
		if got := inSteps(t, root, walk.Options{MaxEntries: 20}); got.Inodes < 51 || got.Inodes > 52 {
			t.Errorf("%d inodes, want 52", got.Inodes)
		}
	}
	cancel()
	growing.Wait()
}

func TestRemovedWhileWalking(t *testing.T) {
	root := filepath.Join(t.TempDir(), "tree")
	for _, name := range []string{"", "/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e", "/a/b/c/d/e/f", "/a/b/c/d/e/f/g"} {
		mkdir(t, root+name)
	}
	for steps := range 12 {
		t.Run("after "+strconv.Itoa(steps), func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "copy")
			must(t, exec.Command("cp", "-a", root, copied).Run())
			w := open(t, copied, walk.Options{MaxEntries: 1, MaxOpen: 4})
			for range steps {
				_, err := w.Continue(t.Context())
				must(t, err)
			}
			must(t, os.RemoveAll(copied))
			finish(t, w)
			if got, want := w.Usage().Inodes, int64(min(steps+1, 8)); got != want {
				t.Errorf("%d inodes, want the %d seen", got, want)
			}
		})
	}
}

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

// A directory that moves takes what is left in it along; the walk says so and
// counts the rest.
func TestMovedWhileWalking(t *testing.T) {
	for name, c := range map[string]struct {
		move string
		lost bool
	}{
		"whose parent is held open, near the root": {"deeper/", false},
		"whose parent is held open, far below":     {strings.Repeat("deeper/", 20), false},
		"whose parent is closed":                   {strings.Repeat("deeper/", 10), true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			chain(t, dir+"/tree", 20)
			w := open(t, dir+"/tree", walk.Options{MaxOpen: 4, MaxEntries: 1})
			for range 40 {
				_, err := w.Continue(t.Context())
				must(t, err)
			}
			must(t, os.WriteFile(dir+"/tree/late", nil, 0o600))
			must(t, os.Rename(filepath.Join(dir, "tree", c.move), dir+"/moved"))
			var done bool
			var err error
			for !done {
				if done, err = w.Continue(t.Context()); !done {
					must(t, err)
				}
			}
			if lost := err != nil && strings.Contains(err.Error(), "moved"); lost != c.lost || (err == nil) == c.lost {
				t.Errorf("got %v, want an error: %v", err, c.lost)
			}
			if got := w.Usage().Inodes; got < 22 || got > 42 {
				t.Errorf("%d inodes, want most of 41", got)
			}
		})
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
	var latest time.Duration
	calls := 0
	for done := false; !done; calls++ {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Microsecond)
		deadline, _ := ctx.Deadline()
		var err error
		done, err = w.Continue(ctx)
		must(t, err)
		latest = max(latest, time.Since(deadline))
		cancel()
	}
	t.Logf("%d calls, at most %v late", calls, latest)
	if calls < 2 || latest > 200*time.Millisecond {
		t.Errorf("%d calls, one of them %v late", calls, latest)
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

// Without the right to read a directory the rest is counted and the gap told.
func TestUnreadableDirectories(t *testing.T) {
	root := t.TempDir()
	must(t, os.Chmod(filepath.Dir(root), 0o755))
	for _, name := range []string{"/shut", "/shut/in", "/shut2", "/open"} {
		mkdir(t, root+name)
	}
	write(t, root+"/open/file", 100)
	must(t, os.Chmod(root+"/shut", 0))
	must(t, os.Chmod(root+"/shut2", 0))
	defer func() { must(t, errors.Join(os.Chmod(root+"/shut", 0o755), os.Chmod(root+"/shut2", 0o755))) }()
	if os.Geteuid() == 0 {
		if got := inSteps(t, root, walk.Options{}); got.Inodes != 6 {
			t.Errorf("root sees %d inodes, want all 6", got.Inodes)
		}
		// Another user to the filesystem, on this thread only.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		must(t, unix.Setfsuid(65534))
		defer func() { must(t, unix.Setfsuid(0)) }()
	}
	w := open(t, root, walk.Options{})
	done, err := w.Continue(t.Context())
	if !done || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "1 more") || !strings.Contains(err.Error(), "shut") {
		t.Errorf("done %v, %v, want both gaps told", done, err)
	}
	if got := w.Usage().Inodes; got != 5 {
		t.Errorf("%d inodes, want 5", got)
	}
	if again, err2 := w.Continue(t.Context()); !again || err2 == nil {
		t.Errorf("once more: %v, %v, want the same", again, err2)
	}
}

func TestClose(t *testing.T) {
	root := t.TempDir()
	before := openDescriptors(t)
	w, err := walk.Open(root, walk.Options{})
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
