package walk_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
)

const (
	inMountNamespace = "EVICTD_TEST_MOUNTS"
	manyFiles        = 200_000
)

// TestMounts runs TestInMounts in a mount namespace of its own, so that nothing is left
// mounted, however it ends.
func TestMounts(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.v", "-test.run=^TestInMounts$")
	cmd.Env = append(os.Environ(), inMountNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the death that Pdeathsig means is this thread's
	defer runtime.UnlockOSThread()
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
}

func TestInMounts(t *testing.T) {
	if os.Getenv(inMountNamespace) != "1" {
		t.Skip("runs inside TestMounts")
	}
	t.Run("nothing mounted below is counted", testNothingMountedIsCounted)
	t.Run("a mount is walked when it is the root", testMountAsRoot)
	t.Run("many files", testManyFiles)
}

func mount(t *testing.T, source, target, kind string, flags uintptr) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, ""); err != nil {
		t.Fatalf("mount %s on %s: %v", source, target, err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(target, unix.MNT_DETACH)) })
}

func testNothingMountedIsCounted(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"/own", "/own/dir", "/sibling", "/loop", "/all", "/proc", "/tmpfs"} {
		mkdir(t, root+name)
	}
	for _, name := range []string{"/own/file", "/own/dir/file", "/same-device", "/other-device"} {
		write(t, root+name, 5000)
	}
	settle(t, root)
	before, size := reference(t, root), func(name string) int64 {
		var st unix.Stat_t
		must(t, unix.Lstat(root+name, &st))
		return st.Blocks * 512
	}
	covered := []string{"/sibling", "/loop", "/all", "/proc", "/tmpfs", "/same-device", "/other-device"}
	want := walk.Usage{Bytes: before.Bytes, Inodes: before.Inodes - int64(len(covered))}
	for _, name := range covered {
		want.Bytes -= size(name)
	}
	mount(t, root+"/own", root+"/sibling", "", unix.MS_BIND)
	mount(t, root, root+"/loop", "", unix.MS_BIND)
	mount(t, "/", root+"/all", "", unix.MS_BIND|unix.MS_REC)
	mount(t, "proc", root+"/proc", "proc", 0)
	mount(t, "tmpfs", root+"/tmpfs", "tmpfs", 0)
	mount(t, root+"/own/file", root+"/same-device", "", unix.MS_BIND)
	mount(t, "/dev/null", root+"/other-device", "", unix.MS_BIND)
	write(t, root+"/tmpfs/file", 5000)
	if got := inSteps(t, root, walk.Options{MaxEntries: 1}); got != want {
		t.Errorf("got %+v, want %+v of %+v without mounts", got, want, before)
	}
	w := open(t, root, walk.Options{})
	w.WithoutOpenat2()
	finish(t, w)
	if got := w.Usage(); got != want {
		t.Errorf("without openat2 %+v, want %+v", got, want)
	}
}

func testMountAsRoot(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, dir+"/volume")
	mount(t, "tmpfs", dir+"/volume", "tmpfs", 0)
	write(t, dir+"/volume/file", 10_000)
	w := open(t, dir+"/volume", walk.Options{})
	finish(t, w)
	if got, want := w.Usage(), (walk.Usage{Bytes: 12_288, Inodes: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if w.Device() == device(t, dir) {
		t.Error("the device is the directory's below the mount")
	}
}

// One directory with so many files does not keep a call beyond its deadline, nor
// memory.
func testManyFiles(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", 0)
	for i := range manyFiles {
		fd, err := unix.Open(fmt.Sprintf("%s/%d", dir, i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		must(t, err)
		must(t, unix.Close(fd))
	}
	must(t, syscall.Mkfifo(dir+"/fifo", 0o600))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := open(t, dir, walk.Options{})
	calls, latest := 0, time.Duration(0)
	for done := false; !done; calls++ {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		deadline, _ := ctx.Deadline()
		var err error
		done, err = w.Continue(ctx)
		must(t, err)
		latest = max(latest, time.Since(deadline))
		cancel()
	}
	runtime.ReadMemStats(&after)
	t.Logf("%d files: %d calls of 10 ms, at most %v late, %d KiB allocated", manyFiles, calls, latest, (after.TotalAlloc-before.TotalAlloc)>>10)
	if got := w.Usage().Inodes; got != manyFiles+2 {
		t.Errorf("%d inodes, want %d", got, manyFiles+2)
	}
	if calls < 3 || latest > time.Second || after.TotalAlloc-before.TotalAlloc > 4<<20 {
		t.Error("that is too late, or too much")
	}
}
