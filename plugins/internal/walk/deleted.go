package walk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrLimit means that Deleted stopped at its limit.
var ErrLimit = errors.New("too many open files to look at")

// Deleted counts the files of a device that have been deleted but are still held open by the
// processes pids, as found in procDir (usually /proc). Each file counts once, however many
// processes hold it. Neither a walk of a tree nor the kubelet sees such files.
//
// Deleted takes a process from pids right before it reads it, so that the caller can check at
// the last moment whether the PID still belongs to the intended process.
//
// It reads at most limit descriptors; it returns ErrLimit if there are more, and ctx's error if ctx
// ends. The usage is then a lower bound, as with any other error. A process that is gone holds
// nothing. A file that is only mapped is not seen.
func Deleted(ctx context.Context, procDir string, pids iter.Seq[int], device uint64, limit int) (Usage, error) {
	s := search{device: device, left: limit, held: inodes{max: limit}, block: blocks.Get().(*block)}
	defer func() {
		s.block.reset()
		blocks.Put(s.block)
	}()
	var unread failures
	for pid := range pids {
		err := s.process(ctx, filepath.Join(procDir, strconv.Itoa(pid), "fd"))
		switch {
		case err == nil, gone(err), errors.Is(err, unix.ESRCH):
		case errors.Is(err, ErrLimit), errors.Is(err, ctx.Err()):
			return s.found, fmt.Errorf("look for deleted files: %w", err)
		default:
			unread.add(fmt.Errorf("look for deleted files of process %d: %w", pid, err))
		}
	}
	return s.found, unread.err()
}

// search is one run of Deleted.
type search struct {
	device uint64
	left   int
	held   inodes
	found  Usage
	block  *block
	stat   unix.Statx_t
}

// process looks at the descriptors in the directory dir.
func (s *search) process(ctx context.Context, dir string) error {
	fd, err := unix.Open(dir, dirFlags, 0)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	for {
		if more, err := s.block.fill(fd); !more || err != nil {
			return err
		}
		for !s.block.empty() {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := s.block.peek()
			if err != nil {
				return err
			}
			s.block.drop(e)
			if e.dots() {
				continue
			}
			if s.left == 0 {
				return ErrLimit
			}
			s.left--
			s.look(fd, e)
		}
	}
}

// look counts the file that the descriptor e refers to, if the file has been deleted.
func (s *search) look(dir int, e entry) {
	// The link leads to the open file itself: no path is resolved and nothing opened. Cached
	// attributes are enough for other devices, whose server may be away.
	err := statx(dir, e.name, unix.AT_NO_AUTOMOUNT|unix.AT_STATX_DONT_SYNC, &s.stat)
	if err != nil || s.stat.Mode&unix.S_IFMT != unix.S_IFREG || s.stat.Nlink != 0 {
		return // closed meanwhile, or not a deleted file
	}
	if treeOf(&s.stat).device != s.device || s.held.add(s.stat.Ino) != added {
		return
	}
	s.found.Bytes += int64(s.stat.Blocks) * blockSize
	s.found.Inodes++
}
