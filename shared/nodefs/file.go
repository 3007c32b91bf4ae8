package nodefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// maxFileBytes caps one pseudo-file. The largest here, memory.stat of a node
// with many NUMA nodes, stays under 16 KiB.
const maxFileBytes = 256 << 10

// ErrGone means that a file, or the cgroup that it describes, does not exist (any more). Errors
// that wrap it contain the path.
var ErrGone = errors.New("gone")

// FS is the node's file tree, as seen below one directory.
type FS struct {
	// Root is the node's root directory; "" is "/".
	Root string
}

// Path returns the path at which this process finds the node's path name.
func (f FS) Path(name string) string {
	if filepath.IsAbs(name) && (f.Root == "" || f.Root == "/") {
		return filepath.Clean(name) // takes no memory for a path that is clean
	}
	return filepath.Join("/", f.Root, name)
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
