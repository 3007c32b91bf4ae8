package podusage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/plugins/internal/walk"
	"github.com/evictd/evictd/shared/nodefs"
)

// batch is the number of names read from a directory at a time.
const batch = 256

// blockSize is the unit of st_blocks, independent of the filesystem's block size.
const blockSize = 512

// files counts the files directly in a directory, like the kubelet does for logs: neither the
// directory itself nor its subdirectories count, whose names it returns as dirs. Symlinks count as
// links. The error wraps fs.ErrNotExist if the directory does not exist.
func files(name string) (used walk.Usage, dirs []string, err error) {
	seen := make(map[inode]bool)
	err = eachEntry(name, func(fd int, e fs.DirEntry) error {
		if e.IsDir() {
			dirs = append(dirs, e.Name())
			return nil
		}
		return count(&used, fd, e.Name(), seen)
	})
	if err != nil {
		return walk.Usage{}, nil, err
	}
	return used, dirs, nil
}

// eachEntry calls each for the entries of a directory, with its descriptor.
func eachEntry(name string, each func(fd int, e fs.DirEntry) error) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	dir := os.NewFile(uintptr(fd), name)
	defer func() { _ = dir.Close() }() // nothing was written
	for {
		entries, err := dir.ReadDir(batch)
		for _, e := range entries {
			if err := each(fd, e); err != nil {
				return &fs.PathError{Op: "stat", Path: path.Join(name, e.Name()), Err: err}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// mostLevels is the maximum number of levels of a pod's logs.
const mostLevels = 4

// addLogs adds all files below a pod's directory of logs, and the files that links there name, with
// their rotated ones: docker keeps a log in its own directory. It ignores what cannot be read.
func (p *pod) addLogs(dir string) {
	seen, own := make(map[inode]bool), walk.Usage{}
	links := p.addFiles(&own, dir, seen, mostLevels)
	p.add(logs, 0, own)
	for _, link := range links {
		p.addLinked(link, seen)
	}
}

// addFiles adds all files below a directory of the node and returns the symlinks.
func (p *pod) addFiles(used *walk.Usage, dir string, seen map[inode]bool, levels int) (links []string) {
	_ = eachEntry(p.call.meter.places.fs.Entry(dir), func(fd int, e fs.DirEntry) error {
		switch at := path.Join(dir, e.Name()); {
		case !e.IsDir():
			if e.Type() == fs.ModeSymlink {
				links = append(links, at)
			}
			return count(used, fd, e.Name(), seen)
		case levels > 1:
			links = append(links, p.addFiles(used, at, seen, levels-1)...)
		}
		return nil
	})
	return links
}

// addLinked adds the file that a link names on the node, and its rotated ones beside it.
func (p *pod) addLinked(link string, seen map[inode]bool) {
	node := p.call.meter.places.fs
	name := node.Path(node.Real(link))
	var used walk.Usage
	_ = eachEntry(path.Dir(name), func(fd int, e fs.DirEntry) error {
		if rest, is := strings.CutPrefix(e.Name(), path.Base(name)); !is || !e.Type().IsRegular() || rest != "" && rest[0] != '.' {
			return nil
		}
		return count(&used, fd, e.Name(), seen)
	})
	device, _ := nodefs.FS{}.Device(path.Dir(name))
	p.add(logs, device, used)
}

// An inode is that of a file on a device.
type inode struct{ device, number uint64 }

// count adds a file in dir to used, unless it is gone, for example by log rotation, or was seen: it has
// several links, or a symlink names it.
func count(used *walk.Usage, dir int, name string, seen map[inode]bool) error {
	var stat unix.Stat_t
	if err := unix.Fstatat(dir, name, &stat, unix.AT_SYMLINK_NOFOLLOW); errors.Is(err, syscall.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	at := inode{stat.Dev, stat.Ino}
	if seen[at] {
		return nil
	}
	seen[at] = true
	used.Bytes += stat.Blocks * blockSize
	used.Inodes++
	return nil
}

// file counts one file. A missing file takes nothing.
func file(name string) (used walk.Usage, err error) {
	if err := count(&used, unix.AT_FDCWD, name, map[inode]bool{}); err != nil {
		return walk.Usage{}, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return used, nil
}
