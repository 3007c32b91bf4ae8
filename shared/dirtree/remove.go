package dirtree

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// batch is the number of names that are read at once.
const batch = 1024

// errStopped means that goOn ended the removal early.
var errStopped = errors.New("there is more of it")

// mark separates the original name from the addition in the names of moved directories.
const mark = "~"

// Remove removes name in dir with all below it, while goOn returns true. However deep the tree is,
// at most three descriptors are open: directories that are not empty are moved up into dir, under
// the name with an addition, and removed there. So no other program may write to dir. Leftovers
// must be removed by further calls, one for each name in dir. A missing name is no error.
func Remove(dir, name string, goOn func() bool) error {
	top, err := os.OpenFile(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer top.Close() //nolint:errcheck // only read
	base, _, _ := strings.Cut(name, mark)
	r := remover{top: top, goOn: goOn, prefix: base[:min(len(base), 64)] + mark + rand.Text()[:12] + mark}
	err = r.remove(int(top.Fd()), name)
	if errors.Is(err, unix.ENOTEMPTY) {
		err = r.empty(name)
	}
	for done := 0; err == nil && done < r.moved; done++ {
		err = r.empty(r.name(done))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", top.Name()+"/"+name, err)
	}
	return nil
}

type remover struct {
	top    *os.File
	prefix string
	moved  int
	goOn   func() bool
}

func (r *remover) name(n int) string { return fmt.Sprint(r.prefix, n) }

// remove removes one name of a directory. It returns ENOTEMPTY for a directory that is not empty.
func (r *remover) remove(dir int, name string) error {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EEXIST): // returned by some filesystems
		return unix.ENOTEMPTY
	}
	return err
}

// empty removes a directory in dir with its content; subdirectories that are not empty are moved
// up.
func (r *remover) empty(name string) error {
	top := int(r.top.Fd())
	fd, err := unix.Openat(top, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.EACCES) { // made by another user, and the host is not root
		_ = unix.Fchmodat(top, name, 0o700, 0)
		fd, err = unix.Openat(top, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return err
	}
	d := os.NewFile(uintptr(fd), name)
	defer d.Close() //nolint:errcheck // only read
	for {
		if !r.goOn() {
			return errStopped
		}
		if _, err := d.Seek(0, io.SeekStart); err != nil {
			return err
		}
		names, err := d.Readdirnames(batch)
		if len(names) == 0 {
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			return r.remove(top, name)
		}
		if err := r.clear(d, names); err != nil {
			return err
		}
	}
}

// clear removes or moves up all the names. It returns an error if it could do neither for any.
func (r *remover) clear(d *os.File, names []string) error {
	var failed error
	gone := 0
	for _, name := range names {
		err := r.remove(int(d.Fd()), name)
		if errors.Is(err, unix.ENOTEMPTY) {
			err = unix.Renameat(int(d.Fd()), name, int(r.top.Fd()), r.name(r.moved))
			if err == nil {
				r.moved++
			}
		}
		if err == nil {
			gone++
		} else if failed == nil {
			failed = fmt.Errorf("%.100q: %w", name, err)
		}
	}
	if gone == 0 {
		return failed
	}
	return nil
}
