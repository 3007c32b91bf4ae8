package gc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// batch is the number of names read at a time.
	batch = 256
	// deepest is the maximum depth of a tree to remove; logs are two levels deep.
	deepest = 64
	// blockBytes is the unit of st_blocks, independent of the filesystem's block size.
	blockBytes = 512
)

// A remover removes files below a directory and counts what it released. It stays inside the
// directory whatever that contains, and whatever is renamed meanwhile: it follows no symbolic
// link and enters no other filesystem or bind mount. If something cannot be removed, it
// continues with the rest.
type remover struct {
	released eviction.Reclaimed
	// alive is called regularly.
	alive  func()
	errs   []error // the first ones
	failed int     // the number of all
}

// removeAll removes name in dir with everything below it.
func (r *remover) removeAll(ctx context.Context, dir *os.File, name string) error {
	if !r.remove(ctx, dir, name, name, 0) && ctx.Err() != nil {
		r.fail(name, ctx.Err())
	}
	return r.problems()
}

// removeFile removes name in dir unless it is a directory.
func (r *remover) removeFile(dir *os.File, name string) {
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		r.fail(name, err)
	} else if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		r.unlink(dir, name, name, &st)
	}
}

// remove reports whether it has removed name; it is false if another program was faster.
func (r *remover) remove(ctx context.Context, dir *os.File, name, path string, depth int) bool {
	if depth > deepest {
		r.fail(path, fmt.Errorf("more than %d levels deep", deepest))
		return false
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		r.fail(path, err)
		return false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		before := r.failed
		if err := r.empty(ctx, dir, name, path, depth); err != nil {
			r.fail(path, err)
		}
		if r.failed > before || ctx.Err() != nil {
			return false
		}
	}
	return r.unlink(dir, name, path, &st)
}

func (r *remover) unlink(dir *os.File, name, path string, st *unix.Stat_t) bool {
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, flags); err != nil {
		r.fail(path, err)
		return false
	}
	if flags == unix.AT_REMOVEDIR || st.Nlink == 1 { // another link keeps the blocks
		r.released = sum(r.released, eviction.Reclaimed{Bytes: st.Blocks * blockBytes, Inodes: 1})
	}
	return true
}

// empty removes everything in the directory name of dir. Reading a directory while entries are
// removed may skip some, so it starts over until it finds nothing more to remove.
func (r *remover) empty(ctx context.Context, dir *os.File, name, path string, depth int) error {
	sub, err := openDir(dir, name)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }() // only read
	for {
		before := r.failed
		removed, err := r.sweep(ctx, sub, path, depth)
		if err != nil || removed == 0 || ctx.Err() != nil {
			return err
		}
		r.failed, r.errs = before, r.errs[:min(before, len(r.errs))] // what failed will be tried again
		if _, err := sub.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// sweep reads a directory once and returns how many of its entries it has removed.
func (r *remover) sweep(ctx context.Context, dir *os.File, path string, depth int) (removed int, err error) {
	for ctx.Err() == nil {
		names, err := dir.Readdirnames(batch)
		for _, child := range names {
			if ctx.Err() == nil && r.remove(ctx, dir, child, path+"/"+child, depth+1) {
				removed++
			}
		}
		r.alive()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// fail records what could not be removed, unless it does not exist any more.
func (r *remover) fail(path string, err error) {
	switch {
	case errors.Is(err, unix.ENOENT):
		return
	case errors.Is(err, unix.EXDEV):
		err = fmt.Errorf("%s: another filesystem is mounted there", path)
	default:
		err = fmt.Errorf("%s: %w", path, err)
	}
	r.failed++
	if len(r.errs) < mostErrors {
		r.errs = append(r.errs, err)
	}
}

func (r *remover) problems() error {
	if more := r.failed - len(r.errs); more > 0 {
		return errors.Join(append(r.errs, fmt.Errorf("%d more errors", more))...)
	}
	return errors.Join(r.errs...)
}

// openDir opens name, which must not contain a slash, in dir if it is a directory on the same
// mount.
func openDir(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or forbidden by seccomp
		fd, err = openOnSameMount(dir, name, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openOnSameMount compares mounts, not devices: a bind mount of the same filesystem has the
// same device.
func openOnSameMount(dir *os.File, name string, flags int) (int, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return -1, err
	}
	outer, errOuter := mountOf(int(dir.Fd()))
	inner, errInner := mountOf(fd)
	err = errors.Join(errOuter, errInner)
	if err == nil && outer != inner {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd) // only opened
		return -1, err
	}
	return fd, nil
}

// mountOf returns the ID of the mount that a descriptor is on.
func mountOf(fd int) (string, error) {
	path := fmt.Sprintf("/proc/self/fdinfo/%d", fd)
	info, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("its mount is not known: %v", err) //nolint:errorlint // that proc is not there does not mean that the file is not.
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", fmt.Errorf("its mount is not known: no mnt_id in %s", path)
}
