package filesystem

import (
	"fmt"

	"github.com/google/cadvisor/lib/fs"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"

	// The kinds of filesystems that cAdvisor can read from the table of mounts; each import
	// registers one.
	_ "github.com/google/cadvisor/lib/fs/btrfs/install"
	_ "github.com/google/cadvisor/lib/fs/nfs/install"
	_ "github.com/google/cadvisor/lib/fs/overlay/install"
	_ "github.com/google/cadvisor/lib/fs/tmpfs/install"
	_ "github.com/google/cadvisor/lib/fs/vfs/install"
	_ "github.com/google/cadvisor/lib/fs/zfs/install"
)

// location is the filesystem on which a directory was found.
type location struct {
	dev    uint64 // of the directory
	device fs.DeviceInfo
	// mountpoint is the path that represents the filesystem: the one that cAdvisor reads its
	// figures from, else the directory itself.
	mountpoint string
	// name is the device and its mount point, for people.
	name string
}

// holds reports whether the location is still right for the directory path, now on the device
// dev. The mount that represents it may be gone although the directory has not moved.
func (l *location) holds(path string, dev uint64) bool {
	if l.mountpoint == "" || l.dev != dev {
		return false
	}
	if l.mountpoint == path {
		return true
	}
	at, err := nodefs.FS{}.Device(l.mountpoint)
	return err == nil && at == dev
}

// locate finds the device and the mount of a directory on the device dev. It reads the table of
// mounts, which grows with the number of pods, so it is called only when a directory has moved.
//
// cAdvisor finds no device for kinds of filesystems that it does not know (fuse, 9p), so the
// kubelet has no figures there. Here the device number identifies such a filesystem, and the
// figures are read at the directory itself.
func locate(path string, dev uint64) location {
	l := location{
		dev:        dev,
		device:     fs.DeviceInfo{Major: uint(unix.Major(dev)), Minor: uint(unix.Minor(dev))},
		mountpoint: path,
	}
	l.device.Device = fmt.Sprintf("device %d:%d", l.device.Major, l.device.Minor)
	if mounts, err := fs.NewFsInfo(fs.Context{}); err == nil {
		l.ask(mounts, path)
	}
	l.name = l.device.Device + " on " + l.mountpoint
	return l
}

// ask fills in what cAdvisor knows.
func (l *location) ask(mounts fs.FsInfo, path string) {
	device, err := mounts.GetDirFsDevice(path)
	if err != nil {
		return
	}
	l.device = *device
	mountpoint, err := mounts.GetMountpointForDevice(device.Device)
	if err != nil {
		return
	}
	// Another filesystem may be mounted over that mount point, and below a subvolume of btrfs its
	// device number differs; in both cases the figures at the directory are right.
	if at, err := (nodefs.FS{}).Device(mountpoint); err == nil && at == l.dev {
		l.mountpoint = mountpoint
	}
}

// same reports whether two locations are on one device. Names differ if one tmpfs is mounted
// twice, numbers for two subvolumes of one btrfs.
func (l *location) same(other *location) bool {
	return l.device.Device == other.device.Device ||
		l.device.Major == other.device.Major && l.device.Minor == other.device.Minor
}
