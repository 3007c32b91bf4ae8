package plugindir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stillFor is the time for which a file must be unchanged before it is started, if the kernel
	// cannot tell whether it is complete.
	stillFor = 100 * time.Millisecond
	// Poll is the interval between checks of a file that is being written.
	Poll = 100 * time.Millisecond
)

// ErrIncomplete reports a file that must not be started yet.
var ErrIncomplete = errors.New("still being written")

// Complete returns the identity of the file at path, and ErrIncomplete if it is open for writing.
// Files that are unreadable or not regular are left to Executable to refuse.
func Complete(ctx context.Context, path string) (ID, error) {
	id, err := Identify(path)
	if err != nil {
		return ID{}, nil // Executable gives a better error
	}
	// It uses the change time instead of a second look, so that old files start at once. After a
	// clock was set back it does not wait.
	if age := time.Since(time.Unix(0, id.ctime)); age >= 0 && age < stillFor {
		select {
		case <-time.After(stillFor - age):
		case <-ctx.Done():
			return ID{}, ctx.Err()
		}
	}
	if filepath.Ext(path) == socketSuffix {
		return id, nil // CheckSocket looks what it is
	}
	// Non-blocking: it may have become a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return id, nil // Executable says it better
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return id, nil // Executable gives a better error
	}
	if now := IDOf(info); now != id {
		return ID{}, fmt.Errorf("%w: it changes", ErrIncomplete)
	}
	return id, completeFile(f)
}

// completeFile returns ErrIncomplete if the file is also open for writing, or obviously truncated.
func completeFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w: it is empty", ErrIncomplete)
	}
	// The kernel grants a read lease only while the file is not open for writing. If leases are not
	// available or not permitted, executing it fails instead (ETXTBSY).
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w: it is open for writing", ErrIncomplete)
	case err == nil:
		_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	}
	if truncated(f, info.Size()) {
		return fmt.Errorf("%w: it has %d bytes, and its headers speak of more", ErrIncomplete, info.Size())
	}
	return nil
}
