package filesystem

import (
	"fmt"

	"github.com/google/cadvisor/lib/fs"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"

	// The kinds of filesystems that cAdvisor knows how to take from the table of
	// mounts, each of which adds itself.
	_ "github.com/google/cadvisor/lib/fs/btrfs/install"
	_ "github.com/google/cadvisor/lib/fs/nfs/install"
	_ "github.com/google/cadvisor/lib/fs/overlay/install"
	_ "github.com/google/cadvisor/lib/fs/tmpfs/install"
	_ "github.com/google/cadvisor/lib/fs/vfs/install"
	_ "github.com/google/cadvisor/lib/fs/zfs/install"
)

// location is where a directory was found.
type location struct {
	dev    uint64 // of the directory
	device fs.DeviceInfo
	// mountpoint is the path that stands for the filesystem: where cAdvisor reads
	// its figures, else the directory itself.
	mountpoint string
	// name is the device and where it is mounted, for people.
	name string
}

// holds says whether a directory on the device dev is still there. The mount that
// stands for it may have gone although the directory has not moved.
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

// locate finds the device and the mount of a directory that is on the device
// dev. It reads the table of mounts, which grows with the number of pods, and is
// done only when a directory is not where it was.
//
// cAdvisor has no device for filesystems of kinds that it does not know (fuse,
// 9p), so that the kubelet has no figures there. Here the number of the device
// tells them apart, and the directory itself has the figures.
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

// ask takes over what cAdvisor knows.
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
	// Another filesystem may be mounted over that mountpoint, and below a
	// subvolume of btrfs it has another number; both have the right figures at
	// the directory.
	if at, err := (nodefs.FS{}).Device(mountpoint); err == nil && at == l.dev {
		l.mountpoint = mountpoint
	}
}

// same says whether two locations are on one device. The names differ where one
// tmpfs is mounted twice, and the numbers where two subvolumes of one btrfs are.
func (l *location) same(other *location) bool {
	return l.device.Device == other.device.Device ||
		l.device.Major == other.device.Major && l.device.Minor == other.device.Minor
}
