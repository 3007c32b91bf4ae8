package nodefs

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FilesystemSample is the free space and inodes of a filesystem, by the formulas of cAdvisor and
// so the kubelet.
type FilesystemSample struct {
	CapacityBytes int64
	// FreeBytes is the size of the unused blocks, AvailableBytes the same without the blocks
	// reserved for root.
	FreeBytes      int64
	AvailableBytes int64
	// Inodes is 0 if the filesystem does not count inodes, like btrfs.
	Inodes     int64
	InodesFree int64
	// InodesErr says why the numbers of inodes, then 0, cannot be. The sizes may be right: a network
	// filesystem that does not know its inodes may report 2^64-1.
	InodesErr error
}

// Statfs reads the free space and inodes of the filesystem that holds the node's path name. It
// does not return while that filesystem hangs (a dead NFS server): a caller that cannot wait
// must call it in a separate goroutine.
func (f FS) Statfs(name string) (FilesystemSample, error) {
	path := f.Path(name)
	var s unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(path, &s) }); err != nil {
		return FilesystemSample{}, fileError("statfs", path, err)
	}
	sample, err := sampleOf(&s)
	if err != nil {
		return FilesystemSample{}, fmt.Errorf("statfs %s: %w", path, err)
	}
	return sample, nil
}

// sampleOf returns the figures of a filesystem, or an error if the sizes cannot be.
func sampleOf(s *unix.Statfs_t) (f FilesystemSample, err error) {
	if s.Frsize <= 0 {
		return f, fmt.Errorf("block size %d", s.Frsize)
	}
	block := uint64(s.Frsize)
	if f.CapacityBytes, f.FreeBytes, err = parts("filesystem", block, s.Blocks, s.Bfree); err != nil {
		return f, err
	}
	free, name := s.Bfree, "free space"
	if uint32(s.Type) == unix.BTRFS_SUPER_MAGIC { // it subtracts a reserve for metadata from the free space only
		free, name = s.Blocks, "filesystem"
	}
	if _, f.AvailableBytes, err = parts(name, block, free, s.Bavail); err != nil {
		return f, err
	}
	f.Inodes, f.InodesFree, f.InodesErr = parts("number of inodes", 1, s.Files, s.Ffree)
	return f, nil
}

// Device returns the device number of the node's path name, as in stat's st_dev. It may hang
// like Statfs.
func (f FS) Device(name string) (uint64, error) {
	path := f.Path(name)
	var s unix.Stat_t
	if err := retryInterrupted(func() error { return unix.Stat(path, &s) }); err != nil {
		return 0, fileError("stat", path, err)
	}
	return s.Dev, nil
}

// Mount returns the mount that the node's path name is on. Before Linux 5.8 it has the Device alone.
// It may hang like Statfs.
func (f FS) Mount(name string) (Mount, error) {
	path := f.Path(name)
	var s unix.Statx_t
	if err := retryInterrupted(func() error { return unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &s) }); err != nil {
		return Mount{}, fileError("statx", path, err)
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	id := strconv.FormatUint(s.Mnt_id, 10) + " "
	for line := range strings.Lines(string(table)) {
		if m, ok := ParseMount(line); ok && strings.HasPrefix(line, id) {
			return m, nil
		}
	}
	return Mount{Device: unix.Mkdev(s.Dev_major, s.Dev_minor)}, err
}

// parts returns numbers of units of a size in bytes or inodes, or an error if they cannot be.
func parts(name string, size, of, units uint64) (whole, part int64, err error) {
	high, low := bits.Mul64(size, of)
	switch {
	case high != 0 || low > math.MaxInt64:
		return 0, 0, fmt.Errorf("%s: %d times %d is too large", name, of, size)
	case units > of:
		return 0, 0, fmt.Errorf("%d of the %s with %d cannot be", units, name, of)
	}
	return int64(low), int64(units * size), nil
}
