package podusage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/disk/internal/walk"
)

// batch is the number of names read from a directory at a time.
const batch = 256

// blockSize is the unit of st_blocks, independent of the filesystem's block size.
const blockSize = 512

// files counts the files directly in a directory, like the kubelet does for logs: neither the
// directory itself nor its subdirectories count, whose names it returns as dirs. Symlinks count as
// links. The error wraps fs.ErrNotExist if the directory does not exist.
func files(name string) (used walk.Usage, dirs []string, err error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return walk.Usage{}, nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { _ = dir.Close() }() // nothing was written
	seen := make(map[uint64]bool)
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			if e.IsDir() {
				dirs = append(dirs, e.Name())
				continue
			}
			if err := count(&used, fd, e.Name(), seen); err != nil {
				return walk.Usage{}, nil, &fs.PathError{Op: "stat", Path: path.Join(name, e.Name()), Err: err}
			}
		}
		if errors.Is(err, io.EOF) {
			return used, dirs, nil
		}
		if err != nil {
			return walk.Usage{}, nil, err
		}
	}
}

// count adds a file in dir to used, unless it is gone, for example by log rotation, or its inode
// is in seen, which has the inodes with several links.
func count(used *walk.Usage, dir int, name string, seen map[uint64]bool) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, syscall.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	if stat.Nlink > 1 {
		if seen[stat.Ino] {
			return nil
		}
		seen[stat.Ino] = true
	}
	used.Bytes += stat.Blocks * blockSize
	used.Inodes++
	return nil
}

// file counts one file. A missing file takes nothing.
func file(name string) (used walk.Usage, err error) {
	if err := count(&used, unix.AT_FDCWD, name, map[uint64]bool{}); err != nil {
		return walk.Usage{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return used, nil
}
