// Package input reads files written by others, at a bounded cost: manifests, scenarios, the
// configuration. Such a file may not be regular, may block its reader, be endless, or be small and
// expand to gigabytes. It bounds what is read.
//
// It does not know what the files mean. host/internal/ground/quantity parses amounts.
package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/hang"
)

// pseudo lists filesystems where reading a regular file may block, never end or change the machine.
var pseudo = []uint32{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
	unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
	unix.BPF_FS_MAGIC, unix.EFIVARFS_MAGIC, unix.PSTOREFS_MAGIC, unix.BINFMTFS_MAGIC, unix.NSFS_MAGIC,
	unix.DEVPTS_SUPER_MAGIC, unix.RDTGROUP_SUPER_MAGIC, configfs, fusectl,
}

const configfs, fusectl = 0x62656570, 0x65735543

// readTimeout is the time limit of ReadFileSoon.
const readTimeout = 10 * time.Second

// ReadFile returns the content of the regular file at path, which may be a symbolic link to one, if
// it has at most maxBytes. It opens nothing else. It may hang with its filesystem: see package
// hang. The error does not name the file.
func ReadFile(path string, maxBytes int64) ([]byte, error) {
	f, size, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read.
	if size > maxBytes {
		return nil, tooLarge(maxBytes)
	}
	data := bytes.NewBuffer(make([]byte, 0, size+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, maxBytes+1)); err != nil {
		return nil, short(err)
	}
	if int64(data.Len()) > maxBytes { // It has grown.
		return nil, tooLarge(maxBytes)
	}
	return data.Bytes(), nil
}

// ReadFileSoon is like ReadFile, for a file that is read once, by a caller without earlier content
// to use instead. It waits ten seconds at most.
func ReadFileSoon(path string, maxBytes int64) ([]byte, error) {
	late := make(chan struct{})
	defer time.AfterFunc(readTimeout, func() { close(late) }).Stop()
	return hang.Do(late, func() ([]byte, error) { return ReadFile(path, maxBytes) }, nil)
}

// FilesSoon lists the files below dir that end in ext, in the order of filepath.WalkDir. It refuses
// a directory with more than most entries in total, and waits ten seconds at most. The error does
// not name dir.
func FilesSoon(dir, ext string, most int) ([]string, error) {
	late := make(chan struct{})
	defer time.AfterFunc(readTimeout, func() { close(late) }).Stop()
	return hang.Do(late, func() ([]string, error) {
		var files []string
		seen := -1 // the directory itself
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if seen++; seen > most {
				return fmt.Errorf("has more than %d files", most)
			}
			if err != nil && path != dir {
				return fmt.Errorf("%s: %w", path, short(err))
			}
			if err == nil && !entry.IsDir() && filepath.Ext(path) == ext {
				files = append(files, path)
			}
			return err
		})
		return files, short(err)
	}, nil)
}

func tooLarge(maxBytes int64) error {
	if maxBytes >= 1<<20 && maxBytes%(1<<20) == 0 {
		return fmt.Errorf("is larger than %d MiB", maxBytes>>20)
	}
	return fmt.Errorf("is larger than %d bytes", maxBytes)
}

// Open opens a regular file like ReadFile, and returns its size.
func Open(path string) (*os.File, int64, error) {
	f, size, err := open(path)
	return f, size, short(err)
}

// open examines the file before it opens it, because opening some devices has effects: the handle
// identifies the file even if its name changes.
func open(path string) (*os.File, int64, error) {
	handle, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return nil, 0, err
	}
	defer handle.Close() //nolint:errcheck // nothing was done with it
	info, err := handle.Stat()
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("is a %s, want a regular file", Kind(info.Mode()))
	}
	var filesystem unix.Statfs_t
	if err := unix.Fstatfs(int(handle.Fd()), &filesystem); err != nil {
		return nil, 0, err
	}
	if slices.Contains(pseudo, uint32(filesystem.Type)) {
		return nil, 0, errors.New("is a file of the kernel's, want a regular file")
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", handle.Fd()), os.O_RDONLY|unix.O_NONBLOCK, 0)
	return f, info.Size(), err
}

// Kind describes a file type.
func Kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "regular file"
	case m.IsDir():
		return "directory"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	case m&fs.ModeSymlink != 0:
		return "symbolic link"
	default:
		return "device"
	}
}

// short returns err without the file's name, which the caller knows.
func short(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}

// countedTimes bounds the entries counted for an error, in multiples of the limit.
const countedTimes = 8

// ReadDir returns the entries of the directory at path, unsorted, if there are at most most. The
// error does not name the directory.
func ReadDir(path string, most int) ([]fs.DirEntry, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, short(err)
	}
	defer dir.Close() //nolint:errcheck // only read
	entries, err := dir.ReadDir(most + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF): // io.EOF means that it is empty
		return nil, short(err)
	case len(entries) > most:
		more, _ := dir.Readdirnames(countedTimes * most) // a lower bound
		return nil, fmt.Errorf("has at least %d files, want at most %d", len(entries)+len(more), most)
	}
	return entries, nil
}
