package gc

import (
	"errors"
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
	if err := quiet().removeAll(t.Context(), dir, "d", 0); err == nil || !strings.Contains(err.Error(), "levels deep") {
		t.Errorf("error %v, want one about the depth", err)
	}
	r := quiet()
	if err := errors.Join(r.removeAll(t.Context(), dir, "top", 0), r.removeAll(t.Context(), dir, "no such", 0)); err != nil || r.freed.Inodes != 1 {
		t.Errorf("error %v, freed %+v", err, r.freed)
	}
}

// A bind mount of the same filesystem has the same device: only the kernel can
// tell it. Where it does not, before Linux 5.6, other filesystems are told by their
// device.
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
	if _, err := openOnSameDevice(d, "tmpfs", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC); !errors.Is(err, unix.EXDEV) {
		t.Errorf("without openat2: error %v, want EXDEV", err)
	}
	if fd, err := openOnSameDevice(d, "also", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC); err != nil {
		t.Error(err)
	} else {
		unix.Close(fd)
	}
	err = quiet().removeAll(t.Context(), dir, "d", 0)
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
