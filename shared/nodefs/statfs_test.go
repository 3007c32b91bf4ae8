package nodefs

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStatfs(t *testing.T) {
	root := t.TempDir()
	write(t, root, "var/lib/kubelet/pods/x", "")
	got, err := FS{Root: root}.Statfs("/var/lib/kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if got.CapacityBytes <= 0 || got.FreeBytes > got.CapacityBytes || got.AvailableBytes > got.FreeBytes || got.AvailableBytes < 0 || got.InodesFree > got.Inodes {
		t.Errorf("read %+v, want figures of a filesystem", got)
	}
	if _, err := (FS{Root: root}).Statfs("/var/lib/containerd"); !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), filepath.Join(root, "var/lib/containerd")) {
		t.Errorf("error is %v, want gone with the path", err)
	}
}

// Figures at the largest int64 were plenty: the filesystem seemed never to be full.
func TestSizesOfAFilesystemThatCannotBeAreNoFigures(t *testing.T) {
	const most = math.MaxUint64
	disk := unix.Statfs_t{Frsize: 4096, Blocks: 10, Bfree: 5, Bavail: 4, Files: 7, Ffree: 3}
	for name, c := range map[string]struct {
		change             func(*unix.Statfs_t)
		wantErr, inodesErr string
		available          int64
	}{
		"as it is":                      {func(*unix.Statfs_t) {}, "", "", 4 * 4096},
		"full":                          {func(s *unix.Statfs_t) { s.Bfree, s.Bavail = 0, 0 }, "", "", 0},
		"nothing is free but available": {func(s *unix.Statfs_t) { s.Bfree = 0 }, "4 of the free space with 0", "", 0},
		"more is available than free":   {func(s *unix.Statfs_t) { s.Bavail = 6 }, "6 of the free space with 5", "", 0},
		"btrfs":                         {func(s *unix.Statfs_t) { s.Type, s.Bavail = unix.BTRFS_SUPER_MAGIC, 6 }, "", "", 6 * 4096},
		"btrfs of which more than all":  {func(s *unix.Statfs_t) { s.Type, s.Bavail = unix.BTRFS_SUPER_MAGIC, 11 }, "11 of the filesystem with 10", "", 0},
		"more is free than there is":    {func(s *unix.Statfs_t) { s.Bfree = 11 }, "11 of the filesystem with 10", "", 0},
		"a negative number of blocks":   {func(s *unix.Statfs_t) { s.Bavail = most }, "18446744073709551615 of the free space", "", 0},
		"a size that overflows":         {func(s *unix.Statfs_t) { s.Blocks, s.Bfree, s.Bavail = most, most, most }, "filesystem: 18446744073709551615 times 4096", "", 0},
		"no block size":                 {func(s *unix.Statfs_t) { s.Frsize = 0 }, "block size 0", "", 0},
		"inodes are not known":          {func(s *unix.Statfs_t) { s.Files, s.Ffree = most, most }, "", "number of inodes", 4 * 4096},
		"more inodes are free":          {func(s *unix.Statfs_t) { s.Ffree = 8 }, "", "8 of the number of inodes with 7", 4 * 4096},
	} {
		t.Run(name, func(t *testing.T) {
			s := disk
			c.change(&s)
			got, err := sampleOf(&s)
			checkParsed(t, got.AvailableBytes, err, c.available, c.wantErr)
			if inodes := fmt.Sprint(got.InodesErr); err == nil && (c.inodesErr == "") != (got.InodesErr == nil) || !strings.Contains(inodes, c.inodesErr) {
				t.Errorf("inodes: %v, want %q", inodes, c.inodesErr)
			}
			if got.InodesErr != nil && got.Inodes+got.InodesFree != 0 {
				t.Errorf("%+v, want no inodes", got)
			}
		})
	}
}
