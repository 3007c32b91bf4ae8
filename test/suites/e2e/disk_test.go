package e2e_test

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// A resourceKind is a resource of a filesystem: bytes or inodes.
type resourceKind struct {
	name string
	// signal is the second half of a signal's name.
	signal string
	// free returns the free amount of a filesystem.
	free func(unix.Statfs_t) int64
	// take returns a script that takes amount below a directory.
	take func(dir string, amount int64) string
	// unit of a scenario: its amounts are multiples of it.
	unit int64
}

var bytesOf = resourceKind{
	name: "bytes", signal: "available", unit: mib,
	free: func(s unix.Statfs_t) int64 { return int64(s.Bavail) * s.Bsize },
	take: func(dir string, amount int64) string { return bytesIn(fmt.Sprintf("%s/f%d", dir, amount), amount) },
}

var inodesOf = resourceKind{
	name: "inodes", signal: "inodesFree", unit: 30,
	free: func(s unix.Statfs_t) int64 { return int64(s.Ffree) },
	take: func(dir string, amount int64) string { return filesIn(fmt.Sprintf("%s/d%d", dir, amount), amount) },
}

// freeOn returns the free amount of a filesystem once everything has been written.
func freeOn(t *testing.T, path string, of resourceKind) int64 {
	t.Helper()
	dir, err := os.Open(path)
	must(t, err)
	defer dir.Close()
	must(t, unix.Syncfs(int(dir.Fd())))
	var s unix.Statfs_t
	must(t, unix.Statfs(path, &s))
	return of.free(s)
}

// A ballast is files that bring a filesystem to where a scenario begins.
type ballast struct{ dir string }

func newBallast(t *testing.T, filesystem string) ballast {
	t.Helper()
	b := ballast{filepath.Join(filesystem, "ballast")}
	must(t, os.MkdirAll(b.dir, 0o755))
	return b
}

// fillTo takes as much as leaves left, give or take a little.
func (b ballast) fillTo(t *testing.T, of resourceKind, left int64) {
	t.Helper()
	b.take(t, of, freeOn(t, b.dir, of)-left)
}

func (b ballast) take(t *testing.T, of resourceKind, amount int64) {
	t.Helper()
	if amount <= 0 {
		return
	}
	dir, err := os.MkdirTemp(b.dir, of.name)
	must(t, err)
	if of.name == bytesOf.name {
		f, err := os.Create(filepath.Join(dir, "bytes"))
		must(t, err)
		defer f.Close()
		must(t, unix.Fallocate(int(f.Fd()), 0, 0, amount))
		return
	}
	for i := range amount {
		must(t, unix.Mknod(filepath.Join(dir, fmt.Sprint(i)), unix.S_IFREG|0o644, 0))
	}
}

// clear gives all of it back.
func (b ballast) clear(t *testing.T) {
	t.Helper()
	must(t, os.RemoveAll(b.dir), os.MkdirAll(b.dir, 0o755))
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
