package walk

import (
	"context"
	"errors"
)

// Usage is what a tree, or a set of files, takes of its filesystem.
type Usage struct {
	// Bytes are allocated bytes: blocks, not lengths.
	Bytes  int64
	Inodes int64
}

// Options bound a walk. The zero value is good for most.
type Options struct {
	// MaxEntries is how many directory entries one Continue looks at; 0: no limit.
	MaxEntries int
	// MaxOpen is how many directories are held open at once; 0: 16, at least 4.
	MaxOpen int
	// MaxLinks is how many inodes with several links are remembered; 0: 1<<20,
	// which takes 16 MiB when there are as many. Beyond it each further link counts
	// as its share (of a file with three links a third): exact when all links are
	// in the tree, a lower bound otherwise.
	MaxLinks int
}

// A Walk counts one tree. It is for one goroutine at a time.
type Walk struct{}

// Open starts a walk at dir, which must be a directory and not a symlink to one.
// The error wraps fs.ErrNotExist when there is nothing of that name.
func Open(dir string, o Options) (*Walk, error) {
	return nil, errors.ErrUnsupported
}

// Continue goes on where the last call stopped, until the tree is counted
// (done), ctx ends or MaxEntries entries are looked at; the latter two are no
// errors. It returns within a few milliseconds after ctx ends, unless the
// filesystem itself keeps it waiting for longer.
//
// An error without done means that the walk cannot go on now, for want of
// descriptors for example; a later call tries again. An error with done means
// that some directories could not be read: Usage is a lower bound.
func (w *Walk) Continue(ctx context.Context) (done bool, err error) {
	return false, errors.ErrUnsupported
}

// Usage is what has been counted so far: a lower bound until Continue is done.
func (w *Walk) Usage() Usage { return Usage{} }

// Device is the device of the tree, as in stat's st_dev.
func (w *Walk) Device() uint64 { return 0 }

// Close gives up the descriptors of the walk. Usage remains. It may be called
// more than once.
func (w *Walk) Close() error { return nil }
