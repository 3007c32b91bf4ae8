package nodefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFileBytes caps one pseudo-file. The largest here, memory.stat of a node
// with many NUMA nodes, stays under 16 KiB.
const maxFileBytes = 256 << 10

// ErrGone means that a file, or the cgroup that it describes, does not exist (any more). Errors
// that wrap it contain the path.
var ErrGone = errors.New("gone")

// FS is the node's file tree, as seen below one directory. Paths of the node become those of this process by its methods alone:
// the kernel would follow an absolute link from the root of this process.
type FS struct {
	// Root is the node's root directory; "" is "/".
	Root string
}

// Path returns the path at which this process finds the node's path name now. Below a Root symlinks are resolved as on
// the node; what does not exist is named in the nearest directory that does. It may hang like Statfs.
func (f FS) Path(name string) string {
	root := filepath.Join("/", f.Root)
	switch {
	case root == "/" && filepath.IsAbs(name):
		return filepath.Clean(name) // takes no memory for a path that is clean
	case root == "/" || strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/sys/"): // the kernel's own links lead elsewhere
		return filepath.Join(root, name)
	}
	return resolve(root, name)
}

// Entry returns the path of name like Path, but of a symlink itself if name is one.
func (f FS) Entry(name string) string {
	return filepath.Join(f.Path(filepath.Dir(name)), filepath.Base(name))
}

// Real returns the name without symlinks of the node's path name, as the node's table of mounts has it. It may hang like Statfs.
func (f FS) Real(name string) string {
	root := filepath.Join("/", f.Root)
	return filepath.Join("/", strings.TrimPrefix(resolve(root, name), root))
}

// Own returns a path of this process as Path does the node's, if it is below Root.
func (f FS) Own(path string) string {
	root := filepath.Join("/", f.Root)
	if below, ok := strings.CutPrefix(filepath.Clean(path), root+"/"); ok && root != "/" {
		return f.Path("/" + below)
	}
	return path
}

// maxLinks is the number of symlinks in a path from which on the kernel refuses it (MAXSYMLINKS).
const maxLinks = 40

// resolve returns the path of name below root without symlinks. If there are too many it returns a path that the kernel refuses.
func resolve(root, name string) string {
	plain := filepath.Join(root, name)
	if fd, err := unix.Openat2(unix.AT_FDCWD, plain, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}); err == nil {
		_ = unix.Close(fd) // nothing was written
		return plain       // most paths have no symlink: one look in place of one for each directory
	}
	at, links := "/", 0
	for left := strings.Split(filepath.Clean("/"+name), "/"); len(left) > 0; {
		next := filepath.Join(at, left[0])
		left = left[1:]
		target, err := os.Readlink(filepath.Join(root, next))
		if err != nil { // no link, or not there
			at = next
			continue
		}
		if links++; links > maxLinks {
			return plain + "\x00"
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		left = append(strings.Split(target, "/"), left...)
	}
	return filepath.Join(root, at)
}

// A File is a pseudo-file that is kept open and read again and again. It may be
// read concurrently, with a Buffer for each reader.
type File struct {
	path    string
	cleanup runtime.Cleanup

	mu sync.RWMutex // held for reading during a read, so that Close never frees a descriptor in use
	fd int          // -1 after Close
}

// A Buffer is the memory that reads reuse. Its zero value is ready. The bytes
// that a read returns belong to the Buffer until the next read with it.
type Buffer struct {
	bytes []byte
}

var buffers = sync.Pool{New: func() any { return new(Buffer) }}

// BorrowBuffer returns a Buffer for one call. The caller returns it with release.
func BorrowBuffer() (b *Buffer, release func()) {
	b, _ = buffers.Get().(*Buffer)
	return b, func() { buffers.Put(b) }
}

// Open opens the node's file name. A File that is dropped without Close is
// closed by the garbage collector.
func (f FS) Open(name string) (*File, error) {
	path := f.Path(name)
	var fd int
	err := retryInterrupted(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fileError("open", path, err)
	}
	file := &File{path: path, fd: fd}
	file.cleanup = runtime.AddCleanup(file, func(fd int) { _ = unix.Close(fd) }, fd)
	return file, nil
}

// Path returns the path that the file was opened with, below the root.
func (f *File) Path() string { return f.path }

// Close closes the file. Later reads return an error that wraps ErrGone. It may
// be called more than once, and on nil.
func (f *File) Close() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return
	}
	f.cleanup.Stop()
	_ = unix.Close(f.fd) // nothing was written
	f.fd = -1
}

// Read returns the whole file as it is now, in the memory of b.
//
// The kernel renders the file again for each pread, so one call that has room
// for all of it is both the cheapest way and the only consistent one.
func (f *File) Read(b *Buffer) ([]byte, error) {
	if b.bytes == nil {
		b.bytes = make([]byte, 8<<10)
	}
	for {
		n, err := f.pread(b.bytes)
		if err != nil {
			return nil, fileError("read", f.path, err)
		}
		if n < len(b.bytes) {
			return b.bytes[:n], nil
		}
		if len(b.bytes) >= maxFileBytes {
			return nil, fmt.Errorf("read %s: larger than %d bytes", f.path, maxFileBytes)
		}
		b.bytes = make([]byte, 2*len(b.bytes))
	}
}

func (f *File) pread(p []byte) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return 0, os.ErrClosed
	}
	for {
		n, err := unix.Pread(f.fd, p, 0)
		if err != unix.EINTR {
			return n, err
		}
	}
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func fileError(op, path string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOTDIR), errors.Is(err, os.ErrClosed):
		return fmt.Errorf("%s %s: %w: %w", op, path, ErrGone, err)
	default:
		return fmt.Errorf("%s %s: %w", op, path, err)
	}
}
