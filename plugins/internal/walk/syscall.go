package walk

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Package unix takes strings and copies them, which means 100,000 allocations for 100,000
// files. These calls take names as the kernel wrote them.

const (
	statMask = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
)

// Names with a terminating zero byte, like those of entries.
var (
	nameSelf   = []byte{0}
	nameParent = []byte("..\x00")
)

// opener opens directories, as strictly as the kernel can.
type opener struct {
	// plain: there is no openat2 (Linux before 5.6, or a seccomp filter that refuses it).
	// Mounts are then recognized only after opening them.
	plain bool
}

// root opens the directory where a walk starts.
func (o *opener) root(dir string) (int, error) {
	name, err := unix.ByteSliceFromString(dir)
	if err != nil {
		return -1, err
	}
	fd, err := openat2(unix.AT_FDCWD, name, 0)
	if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return fd, err
	}
	o.plain = true
	return openat(unix.AT_FDCWD, name)
}

// dir opens the directory name in parent. It follows no link and enters no mount.
func (o *opener) dir(parent int, name []byte) (int, error) {
	if o.plain {
		return openat(parent, name)
	}
	fd, err := openat2(parent, name, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_XDEV|unix.RESOLVE_NO_SYMLINKS)
	if errors.Is(err, unix.EXDEV) {
		return -1, errElsewhere
	}
	return fd, err
}

func openat(at int, name []byte) (int, error) {
	return again(func() (uintptr, unix.Errno) {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&name[0])), dirFlags, 0, 0, 0)
		return fd, errno
	})
}

func openat2(at int, name []byte, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: dirFlags, Resolve: resolve}
	return again(func() (uintptr, unix.Errno) {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(at), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how), 0, 0)
		return fd, errno
	})
}

// statFD describes the open file fd.
func statFD(fd int, st *unix.Statx_t) error {
	return statx(fd, nameSelf, unix.AT_EMPTY_PATH, st)
}

func statx(at int, name []byte, flags uintptr, st *unix.Statx_t) error {
	_, err := again(func() (uintptr, unix.Errno) {
		_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(at), uintptr(unsafe.Pointer(&name[0])),
			flags, statMask, uintptr(unsafe.Pointer(st)), 0)
		return 0, errno
	})
	return err
}

func getdents(fd int, p []byte) (int, error) {
	return again(func() (uintptr, unix.Errno) {
		n, _, errno := unix.Syscall(unix.SYS_GETDENTS64, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		return n, errno
	})
}

// again repeats a call that a signal has interrupted; the Go runtime uses signals for preemption.
func again(call func() (uintptr, unix.Errno)) (int, error) {
	for {
		switch r, errno := call(); errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// closeFD closes a descriptor that was only read.
func closeFD(fd int) { _ = unix.Close(fd) }
