package walk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// step looks at the next entry of the deepest directory, or skips it or leaves the directory
// (false). After an error the same step can be repeated.
func (w *Walk) step() (looked bool, err error) {
	e, ok, err := w.stack.next()
	switch {
	case err == nil && ok && e.kind != unix.DT_DIR && e.kind != unix.DT_UNKNOWN && w.tally.links.has(e.ino):
		w.stack.take(e)
		return false, nil
	case err == nil && ok:
		err := w.look(e)
		return err == nil, err
	case scarce(err):
		return false, err
	case err != nil && !gone(err):
		w.unread.add(fmt.Errorf("read a directory %d levels down: %w", len(w.stack.levels)-1, err))
	}
	lost, err := w.stack.leave()
	if lost > 0 {
		w.unread.add(fmt.Errorf("come back to %d directories: %w", lost, errMoved))
	}
	return false, err
}

// look counts the entry e. It counts a directory through its own descriptor, so that it counts
// the directory that it enters.
func (w *Walk) look(e entry) error {
	if e.kind != unix.DT_DIR {
		isDir, err := w.file(e)
		if !isDir || err != nil {
			return err
		}
	}
	if w.except[e.ino] {
		w.stack.take(e)
		return nil
	}
	err := w.stack.enter(e, &w.stat)
	switch {
	case err == nil:
		w.countDir()
		return nil
	case scarce(err):
		return err
	case gone(err), errors.Is(err, errElsewhere):
	default:
		w.unread.add(fmt.Errorf("enter %q %d levels down: %w", e.String(), len(w.stack.levels), err))
		w.stat = unix.Statx_t{}
		// The directory itself counts, unlike its content.
		if statErr := w.stack.statEntry(e, &w.stat); statErr == nil && w.stack.tree.has(&w.stat) {
			w.tally.count(&w.stat)
		}
	}
	w.stack.take(e)
	return nil
}

func (w *Walk) countDir() {
	if w.except == nil {
		w.tally.count(&w.stat)
	}
}

// file counts e unless it turns out to be a directory: not every filesystem reports the type of
// its entries, and an entry may have been replaced.
func (w *Walk) file(e entry) (isDir bool, err error) {
	err = w.stack.statEntry(e, &w.stat)
	switch {
	case scarce(err):
		return false, err
	case err == nil && w.stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		return true, nil
	case err == nil && w.stack.tree.has(&w.stat):
		w.tally.count(&w.stat)
	case err != nil && !gone(err):
		w.unread.add(fmt.Errorf("stat %q %d levels down: %w", e.String(), len(w.stack.levels), err))
	}
	w.stack.take(e)
	return false, nil
}

// gone reports whether the entry was removed, or replaced by one of another type, before the
// walk reached it.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

// scarce reports whether a resource of the machine was exhausted, perhaps for a moment.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// failures counts directories and files that could not be read, in bounded space.
type failures struct {
	first error
	more  int
}

func (f *failures) add(err error) {
	if f.first == nil {
		f.first = err
		return
	}
	f.more++
}

func (f *failures) err() error {
	if f.more == 0 {
		return f.first
	}
	return fmt.Errorf("%w (and %d more failures)", f.first, f.more)
}
