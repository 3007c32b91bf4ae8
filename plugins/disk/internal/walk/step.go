package walk

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// step looks at the next entry of the deepest directory, or passes it over or leaves
// that directory (false). After an error the same step can be tried again.
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

// look counts the entry e. A directory is counted through its own descriptor, so
// that what is counted is what is entered.
func (w *Walk) look(e entry) error {
	if e.kind != unix.DT_DIR {
		isDir, err := w.file(e)
		if !isDir || err != nil {
			return err
		}
	}
	err := w.stack.enter(e, &w.stat)
	switch {
	case err == nil:
		w.tally.count(&w.stat)
		return nil
	case scarce(err):
		return err
	case gone(err), errors.Is(err, errElsewhere):
	default:
		w.unread.add(fmt.Errorf("enter %q %d levels down: %w", e.String(), len(w.stack.levels), err))
		w.stat = unix.Statx_t{}
		// Itself it counts, unlike what is in it.
		if statErr := w.stack.statEntry(e, &w.stat); statErr == nil && w.stack.tree.has(&w.stat) {
			w.tally.count(&w.stat)
		}
	}
	w.stack.take(e)
	return nil
}

// file counts e unless it turns out to be a directory: not every filesystem says
// what its entries are, and an entry may have become another since.
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

// gone: the entry was removed, or replaced by one of another kind, while the
// walk came to it.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ESTALE)
}

// scarce: the machine lacks something that it may have later.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// failures remembers that something could not be read, in bounded space.
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
