package nodefs

import (
	"fmt"
	"math"
	"math/bits"

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
	if s.Frsize <= 0 {
		return FilesystemSample{}, fmt.Errorf("statfs %s: block size %d", path, s.Frsize)
	}
	block := uint64(s.Frsize)
	return FilesystemSample{
		CapacityBytes:  product(block, s.Blocks),
		FreeBytes:      product(block, s.Bfree),
		AvailableBytes: product(block, s.Bavail),
		Inodes:         product(1, s.Files),
		InodesFree:     product(1, s.Ffree),
	}, nil
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

// product saturates at the largest int64: some network filesystems report 2^63 and more if they
// do not know the number.
func product(a, b uint64) int64 {
	if high, low := bits.Mul64(a, b); high == 0 && low <= math.MaxInt64 {
		return int64(low)
	}
	return math.MaxInt64
}
