package walk_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
)

func device(t *testing.T, name string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(name, &st))
	return st.Dev
}

func TestDeletedFilesThatAreOpen(t *testing.T) {
	dir := t.TempDir()
	hold := func(name string, n int) *os.File {
		write(t, dir+"/"+name, n)
		f, err := os.Open(dir + "/" + name)
		must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	hold("kept", 50_000)
	hold("linked", 50_000)
	must(t, os.Link(dir+"/linked", dir+"/other"))
	must(t, os.Remove(dir+"/linked"))
	gone := hold("gone", 50_000)
	again, err := os.Open(dir + "/gone")
	must(t, err)
	defer again.Close()
	must(t, os.Remove(dir+"/gone"))
	settle(t, dir)
	var st unix.Stat_t
	must(t, unix.Fstat(int(gone.Fd()), &st))
	want := walk.Usage{Bytes: st.Blocks * 512, Inodes: 1}
	if want.Bytes < 50_000 {
		t.Fatalf("the file takes %d bytes", want.Bytes)
	}
	self, nobody := os.Getpid(), 1<<22+1 // more than any pid_max
	if got, err := walk.Deleted(t.Context(), "/proc", slices.Values([]int{self, nobody, self}), st.Dev, 100_000); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := walk.Deleted(t.Context(), "/proc", slices.Values([]int{self}), device(t, "/proc"), 100_000); err != nil || got != (walk.Usage{}) {
		t.Errorf("on another device %+v, %v, want nothing", got, err)
	}
	must(t, errors.Join(gone.Close(), again.Close()))
	if got, err := walk.Deleted(t.Context(), "/proc", slices.Values([]int{self}), st.Dev, 100_000); err != nil || got != (walk.Usage{}) {
		t.Errorf("closed: %+v, %v, want nothing", got, err)
	}
}

func TestDeletedIsBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		f, err := os.Create(dir + "/" + strconv.Itoa(i))
		must(t, err)
		defer f.Close()
		must(t, os.Remove(f.Name()))
	}
	pids, dev := slices.Values([]int{os.Getpid()}), device(t, dir)
	got, err := walk.Deleted(t.Context(), "/proc", pids, dev, 12)
	if !errors.Is(err, walk.ErrLimit) || got.Inodes >= 20 {
		t.Errorf("%+v, %v, want an error and not all", got, err)
	}
	if got, err := walk.Deleted(t.Context(), "/proc", pids, dev, 100_000); err != nil || got.Inodes != 20 {
		t.Errorf("%+v, %v, want 20 inodes", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := walk.Deleted(ctx, "/proc", pids, dev, 100_000); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// What is not a process's directory of descriptors is reported, and the rest done.
func TestDeletedTellsWhatItCannotRead(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "gone"))
	must(t, err)
	defer f.Close()
	must(t, os.Remove(f.Name()))
	proc := t.TempDir()
	must(t, os.MkdirAll(proc+"/7", 0o755))
	must(t, os.Symlink("/proc/self/fd", proc+"/7/fd")) // not followed: nothing there
	must(t, os.Symlink("/proc/self", proc+"/8"))
	dev := device(t, filepath.Dir(f.Name()))
	if got, err := walk.Deleted(t.Context(), proc, slices.Values([]int{7, 8}), dev, 100_000); err != nil || got.Inodes != 1 {
		t.Errorf("%+v, %v, want one inode", got, err)
	}
	if os.Geteuid() == 0 {
		return
	}
	if _, err := walk.Deleted(t.Context(), "/proc", slices.Values([]int{1}), dev, 100_000); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("process 1: %v, want no permission", err)
	}
}
