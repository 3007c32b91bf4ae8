// Package features detects the kernel's newer features on this node, by trying them without an
// effect.
//
// The code that uses a feature tries it again, and has its own fallback.
package features

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/nodefs"
)

// A Feature is a kernel feature.
type Feature struct {
	Name string `json:"name"`
	// There: this process can use it.
	There bool `json:"there"`
	// Detail is a version, or why it is unavailable.
	Detail string `json:"detail,omitempty"`
	// Gives describes what evictd uses it for.
	Gives string `json:"gives"`
}

// Find tries all features.
func Find(fs nodefs.FS) []Feature {
	memory, err := fs.MemoryHierarchy()
	cgroup := func(version nodefs.Version, file string) error {
		if err != nil {
			return err
		}
		if memory.Version != version {
			return fmt.Errorf("is of cgroup version %d, memory here is version %d", version, memory.Version)
		}
		return readable(memory.Path(file))
	}
	own := unix.Getpid()
	return []Feature{
		feature("memory events", "the kernel wakes evictd when memory is used up to a threshold; without them memory is looked at ever more often as it runs short",
			cgroup(nodefs.V1, "cgroup.event_control")),
		feature("PSI", "stalls of memory make evictd look at once, beside the poll; plugins can have triggers on those of disk and CPU too", readable(fs.Path("/proc/pressure/memory"))),
		feature("memory.reclaim", "plugins can have the kernel take back cache before a pod must go; evictd itself needs none", cgroup(nodefs.V2, "memory.reclaim")),
		feature("process_mrelease", "what a killed pod has of memory comes back at once, and not when its processes get to end",
			call(func() error { return syscall(unix.SYS_PROCESS_MRELEASE, badFile, 0, 0) })),
		feature("pidfd", "what a plugin has left is killed without ever hitting another process under the same number",
			call(func() error { return closed(unix.PidfdOpen(own, 0)) })),
		feature("openat2", "the disk plugin cannot be led out of a pod's directory by a link, at one call for each directory", call(func() error {
			return closed(unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}))
		})),
		feature("quotactl_fd", "with project quotas the disk use of a pod is read, not walked", call(func() error { return syscall(unix.SYS_QUOTACTL_FD, badFile, 0, 0) })),
		landlock(),
	}
}

// badFile is an invalid descriptor: an existing system call reports that, and does nothing.
const badFile = ^uintptr(0)

func syscall(number, a, b, c uintptr) error {
	if _, _, errno := unix.Syscall(number, a, b, c); errno != 0 && errno != unix.EBADF {
		return errno
	}
	return nil
}

// closed closes a descriptor that could be opened.
func closed(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func call(try func() error) error {
	err := try()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return errors.New("this kernel does not have it")
	case errors.Is(err, unix.EPERM):
		return errors.New("refused, by seccomp perhaps")
	}
	return err
}

func readable(file string) error {
	f, err := os.Open(file) //nolint:forbidigo // the kernel's
	if errors.Is(err, os.ErrPermission) {
		return nil // it is there, for root
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	if _, err := f.Read(make([]byte, 1)); errors.Is(err, unix.EOPNOTSUPP) {
		return err // switched off at boot
	}
	return nil
}

func landlock() Feature {
	const version = 1 // of the rights that it knows, in place of making any
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, version)
	f := feature("Landlock", "plugins can shut themselves out of files; evictd confines them by users, capabilities and cgroups", call(func() error {
		switch errno {
		case 0:
			return nil
		case unix.EOPNOTSUPP:
			return errors.New("switched off at boot")
		default:
			return errno
		}
	}))
	if f.There {
		f.Detail = fmt.Sprintf("ABI %d", abi)
	}
	return f
}

func feature(name, gives string, err error) Feature {
	f := Feature{Name: name, Gives: gives, There: err == nil}
	if err != nil {
		f.Detail = err.Error()
	}
	return f
}
