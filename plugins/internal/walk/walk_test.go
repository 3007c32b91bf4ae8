package walk_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
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
		if _, err := walk.Open(root+"/"+name, wide(walk.Options{})); !errors.Is(err, want) || !strings.Contains(err.Error(), name) {
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

// Without the right to read a directory the rest is counted and the gap reported.
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
