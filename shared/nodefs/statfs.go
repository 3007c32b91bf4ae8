package nodefs

import (
	"fmt"
	"math"
	"math/bits"
	"os"

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

// Resolve returns the path at which this process finds what the node's path name is, without symlinks,
// which are followed within the node's root. It fails before Linux 5.6.
func (f FS) Resolve(name string) (string, error) {
	path := f.Path(name)
	root, err := unix.Open(f.Path("/"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fileError("open", f.Path("/"), err)
	}
	defer unix.Close(root) //nolint:errcheck // nothing was written
	fd, err := unix.Openat2(root, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT})
	if err != nil {
		return "", fileError("open", path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
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
