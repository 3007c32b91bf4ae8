package gc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// tree makes a directory with files in it, and opens its parent.
func tree(t *testing.T, files ...string) *os.File {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("x"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func quiet() *remover { return &remover{alive: func() {}} }

func TestATreeIsRemovedOnlySoDeep(t *testing.T) {
	dir := tree(t, strings.Repeat("d/", 2*deepest)+"f", "top")
	if err := quiet().removeAll(t.Context(), dir, "d"); err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("error %v, want one about the depth", err)
	}
	r := quiet()
	if err := errors.Join(r.removeAll(t.Context(), dir, "top"), r.removeAll(t.Context(), dir, "no such")); err != nil || r.released.Inodes != 1 {
		t.Errorf("error %v, freed %+v", err, r.released)
	}
}

// restless is a context that renames a file each time it is looked at, which is
// before each removal.
type restless struct {
	context.Context //nolint:containedctx // it is one.
	dir             string
	moves           int
}

func (r *restless) Err() error {
	r.moves++
	from, to := filepath.Join(r.dir, "a"), filepath.Join(r.dir, "b")
	if os.Rename(from, to) != nil {
		_ = os.Rename(to, from)
	}
	if r.moves > 1000 {
		return context.Canceled
	}
	return nil
}

// What others take away is no progress: it would never end.
func TestADirectoryWhoseFilesMoveIsGivenUp(t *testing.T) {
	dir := tree(t, "d/a")
	ctx := &restless{Context: t.Context(), dir: filepath.Join(dir.Name(), "d")}
	r := quiet()
	if err := r.removeAll(ctx, dir, "d"); !errors.Is(err, unix.ENOTEMPTY) || r.released.Inodes != 0 {
		t.Errorf("error %v after %d moves, freed %+v, want that it is not empty", err, ctx.moves, r.released)
	}
}

func TestErrorsAreNotCollectedWithoutBound(t *testing.T) {
	r := quiet()
	for range 10 * mostErrors {
		r.fail("a/b", unix.EACCES)
	}
	if err := r.problems(); len(r.errs) != mostErrors || err == nil || !strings.HasSuffix(err.Error(), fmt.Sprintf("\n%d more errors", 9*mostErrors)) {
		t.Errorf("%d errors are kept, %v", len(r.errs), err)
	}
}

// A bind mount of the same filesystem has the same device, and is another mount
// all the same, also to a kernel without openat2.
func TestMountsAreNotEntered(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") != "1" {
		t.Skip("needs root: run make test")
	}
	outside := tree(t, "keep")
	dir := tree(t, "d/bind/f", "d/tmpfs/f", "d/also/f")
	bind, tmpfs := filepath.Join(dir.Name(), "d/bind"), filepath.Join(dir.Name(), "d/tmpfs")
	for _, err := range []error{unix.Mount(outside.Name(), bind, "", unix.MS_BIND, ""), unix.Mount("tmpfs", tmpfs, "tmpfs", 0, "")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(bind, unix.MNT_DETACH), unix.Unmount(tmpfs, unix.MNT_DETACH)); err != nil {
			t.Error(err)
		}
	})
	d, err := openDir(dir, "d")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"bind", "tmpfs"} {
		if _, err := openOnSameMount(d, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC); !errors.Is(err, unix.EXDEV) {
			t.Errorf("%s without openat2: error %v, want EXDEV", name, err)
		}
	}
	if fd, err := openOnSameMount(d, "also", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC); err != nil {
		t.Error(err)
	} else {
		unix.Close(fd)
	}
	err = quiet().removeAll(t.Context(), dir, "d")
	for _, part := range []string{"d/bind: another filesystem is mounted there", "d/tmpfs: another filesystem is mounted there"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want %q in it", err, part)
		}
	}
	if _, err := os.Stat(filepath.Join(outside.Name(), "keep")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir.Name(), "d/also")); !os.IsNotExist(err) {
		t.Errorf("what is beside the mounts stayed: %v", err)
	}
}
