package gc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
)

const (
	// batch is how many names are read at once.
	batch = 256
	// deepest is how deep a tree is removed; logs are two levels deep.
	deepest = 64
	// blockBytes is the unit of st_blocks, whatever the filesystem's is.
	blockBytes = 512
)

// A remover removes files below a directory and counts what that freed. Whatever
// is in the directory, and whoever renames there meanwhile, it stays inside: no
// symbolic link is followed and no other filesystem or bind mount entered.
type remover struct {
	freed eviction.Reclaimed
	// alive is called now and then.
	alive func()
}

// removeAll removes name in dir with all below it. What cannot be removed does not
// keep the rest.
func (r *remover) removeAll(ctx context.Context, dir *os.File, name string, depth int) error {
	if depth > deepest {
		return fmt.Errorf("%s: more than %d levels deep", name, deepest)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreGone(name, err)
	}
	flags := 0
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		flags = unix.AT_REMOVEDIR
		if err := r.empty(ctx, dir, name, depth); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(int(dir.Fd()), name, flags); err != nil {
		return ignoreGone(name, err)
	}
	if flags == unix.AT_REMOVEDIR || st.Nlink == 1 { // another link keeps the blocks
		r.freed.Bytes += st.Blocks * blockBytes
		r.freed.Inodes++
	}
	return nil
}

// empty removes all that is in the directory name of dir. Reading goes on where it
// was although entries vanish, which may skip some: it starts over until it finds
// nothing more to remove.
func (r *remover) empty(ctx context.Context, dir *os.File, name string, depth int) error {
	sub, err := openDir(dir, name)
	if err != nil {
		return ignoreGone(name, err)
	}
	defer func() { _ = sub.Close() }() // only read
	for {
		removed, errs := 0, []error(nil)
		for {
			names, err := sub.Readdirnames(batch)
			for _, child := range names {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := r.removeAll(ctx, sub, child, depth+1); err != nil {
					errs = append(errs, fmt.Errorf("%s/%w", name, err))
				} else {
					removed++
				}
			}
			r.alive()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
		}
		if removed == 0 {
			return errors.Join(errs[:min(len(errs), mostErrors)]...)
		}
		if _, err := sub.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// openDir opens the directory name, which has no slash in it, in dir, if it is one
// and on the same mount.
func openDir(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat2(int(dir.Fd()), name, &unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV,
	})
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // before Linux 5.6, or forbidden by seccomp
		fd, err = openOnSameDevice(dir, name, flags)
	}
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func openOnSameDevice(dir *os.File, name string, flags int) (int, error) {
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return -1, err
	}
	var outer, inner unix.Stat_t
	err = errors.Join(unix.Fstat(int(dir.Fd()), &outer), unix.Fstat(fd, &inner))
	if err == nil && outer.Dev != inner.Dev {
		err = unix.EXDEV
	}
	if err != nil {
		_ = unix.Close(fd) // only opened
		return -1, err
	}
	return fd, nil
}

func ignoreGone(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		return fmt.Errorf("%s: another filesystem is mounted there", name)
	default:
		return fmt.Errorf("%s: %w", name, err)
	}
}
