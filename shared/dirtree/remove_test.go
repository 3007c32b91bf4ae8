package dirtree

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/testos"
)

func always() bool { return true }

// nest makes a directory in a directory, so many times, with a file in each.
func nest(t *testing.T, dir string, levels int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range levels {
		f, err := unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		below := -1
		if err = errors.Join(unix.Close(f), unix.Mkdirat(at, "deeper", 0o700)); err == nil {
			below, err = unix.Openat(at, "deeper", unix.O_DIRECTORY, 0)
		}
		if err = errors.Join(err, unix.Close(at)); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	_ = unix.Close(at)
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A tree deeper than there are descriptors could not be removed, and after a crash
// evictd never started again.
func TestATreeDeeperThanThereAreDescriptors(t *testing.T) {
	const files = 32
	if os.Getenv("TREE_FEW_FILES") == "" {
		few := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		few.Env = append(os.Environ(), "TREE_FEW_FILES=1")
		if out, err := few.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	dir := t.TempDir()
	nest(t, dir, 4*files)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: files, Max: files}); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir, "deeper", always); err != nil {
		t.Error(err)
	}
	if err := Remove(dir, "file", always); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

func TestWideTrees(t *testing.T) {
	dir := t.TempDir()
	for i := range batch + 10 {
		path := filepath.Join(dir, "tree", fmt.Sprint(i))
		if i%64 == 0 {
			path = filepath.Join(path, "below")
		}
		testos.MkdirAll(t, path, 0o700)
	}
	if err := Remove(dir, "tree", always); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

func TestWhatLinksPointAtStays(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	kept := filepath.Join(elsewhere, "kept")
	if err := errors.Join(os.WriteFile(kept, nil, 0o600), os.MkdirAll(filepath.Join(dir, "tree", "closed"), 0o700),
		os.Symlink(elsewhere, filepath.Join(dir, "tree", "link")), os.Symlink(elsewhere, filepath.Join(dir, "link")),
		os.WriteFile(filepath.Join(dir, "tree", "closed", "file"), nil, 0), os.Chmod(filepath.Join(dir, "tree"), 0)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tree", "link", "never there"} {
		if err := Remove(dir, name, always); err != nil {
			t.Error(err)
		}
	}
	wantEmpty(t, dir)
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// Removal does not wait for a tree that is too large; the rest goes the next time.
func TestWhatWasNotRemovedInTimeGoesTheNextTime(t *testing.T) {
	dir := t.TempDir()
	testos.Mkdir(t, filepath.Join(dir, "tree"), 0o700)
	nest(t, filepath.Join(dir, "tree"), 20)
	n := 5
	err := Remove(dir, "tree", func() bool { n--; return n > 0 })
	left, _ := os.ReadDir(dir)
	if !errors.Is(err, errStopped) || len(left) == 0 {
		t.Errorf("error %v with %d left, want that it was stopped", err, len(left))
	}
	for _, e := range left {
		if err := Remove(dir, e.Name(), always); err != nil {
			t.Error(err)
		}
	}
	wantEmpty(t, dir)
}
