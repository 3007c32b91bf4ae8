package walk

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Usage is the space and the inodes that a tree, or a set of files, takes on its filesystem.
type Usage struct {
	// Bytes are allocated bytes: blocks, not file lengths.
	Bytes  int64
	Inodes int64
}

// Options limit a walk.
type Options struct {
	// MaxEntries limits the directory entries of one Continue; 0 means no limit. Further links
	// to a remembered inode are skipped and do not count towards it.
	MaxEntries int
	// MaxOpen limits the directories that are open at once; the minimum is 4. In deeper trees those
	// in between are closed and found again through "..". If a directory below them is moved
	// elsewhere meanwhile, that fails: the walk continues higher up and loses their unread rest.
	MaxOpen int
	// MaxLinks limits the inodes with several links that are remembered, at some 20 bytes each.
	// Beyond it each link of a file counts as its share (one of three links a third): exact if
	// all its links are in the tree, a lower bound otherwise.
	MaxLinks int
	// Except, if not nil, are the inodes of directories below the root that are not entered. Then
	// directories themselves do not count.
	Except map[uint64]bool
}

// A Walk counts one tree. It is not safe for concurrent use.
//
// Between two calls it keeps its place in the tree: a few descriptors, 32 bytes for each level of
// depth, and the numbers of the inodes with several links. Files that are not created, deleted or
// moved during the walk are counted once; others may be counted or not.
type Walk struct {
	name       string
	maxEntries int
	stack      stack
	tally      tally
	unread     failures
	except     map[uint64]bool
	stat       unix.Statx_t // of the current entry
	closed     bool
}

// Open starts a walk at dir, which must be a directory and not a symlink to one. The error
// wraps fs.ErrNotExist if dir does not exist.
func Open(dir string, o Options) (*Walk, error) {
	w := &Walk{
		name:       dir,
		maxEntries: o.MaxEntries,
		except:     o.Except,
		tally:      tally{links: inodes{max: o.MaxLinks}},
		stack:      stack{maxOpen: max(o.MaxOpen, 4)},
	}
	if err := w.stack.openRoot(dir, &w.stat); err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	w.countDir()
	return w, nil
}

// Continue continues where the last call stopped, until the tree is counted (done), ctx ends or
// MaxEntries entries have been read; the latter two are no errors. It returns within a few
// milliseconds after ctx ends, unless the filesystem itself delays a single call for longer.
//
// An error without done means that the walk cannot continue now, for example because
// descriptors are scarce; a later call tries again. An error with done means that some
// directories could not be read: Usage is a lower bound.
func (w *Walk) Continue(ctx context.Context) (done bool, err error) {
	if w.closed {
		return false, fmt.Errorf("walk %s: %w", w.name, os.ErrClosed)
	}
	defer w.stack.park()
	ended := ctx.Done()
	for entries := 0; len(w.stack.levels) > 0; {
		select {
		case <-ended:
			return false, nil
		default:
		}
		if w.maxEntries > 0 && entries >= w.maxEntries {
			return false, nil
		}
		looked, err := w.step()
		if err != nil {
			return false, fmt.Errorf("walk %s: %w", w.name, err)
		}
		if looked {
			entries++
		}
	}
	if err := w.unread.err(); err != nil {
		return true, fmt.Errorf("walk %s: %w", w.name, err)
	}
	return true, nil
}

// Usage returns the count so far: a lower bound until Continue is done.
func (w *Walk) Usage() Usage { return w.tally.usage() }

// Device returns the device of the tree, as in stat's st_dev.
func (w *Walk) Device() uint64 { return w.stack.tree.device }

// Close releases the descriptors of the walk. Usage remains valid. It may be called more than once.
func (w *Walk) Close() error {
	w.closed = true
	w.stack.close()
	return nil
}
