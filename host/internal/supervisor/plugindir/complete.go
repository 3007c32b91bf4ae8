package plugindir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stillFor is for how long a file must not have changed to be started, where
	// there is no way to ask whether it is complete.
	stillFor = 100 * time.Millisecond
	// Poll is between two looks at a file that is being written.
	Poll = 100 * time.Millisecond
)

// ErrIncomplete is about a file that must not be started yet.
var ErrIncomplete = errors.New("still being written")

// Complete returns the file at path when it is not open for writing, and ErrIncomplete if
// it is. What it cannot look at, or is no regular file, it leaves to
// Executable to refuse.
func Complete(ctx context.Context, path string) (ID, error) {
	id, err := Identify(path)
	if err != nil {
		return ID{}, nil // Executable says it better
	}
	// By the time of the change, and not by a second look, so that files that have
	// been there for long start at once. A clock that was set back waits for nothing.
	if age := time.Since(time.Unix(0, id.ctime)); age >= 0 && age < stillFor {
		select {
		case <-time.After(stillFor - age):
		case <-ctx.Done():
			return ID{}, ctx.Err()
		}
	}
	// Not blocking: it may have become a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return id, nil // Executable says it better
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return id, nil // Executable says it better
	}
	if now := IDOf(info); now != id {
		return ID{}, fmt.Errorf("%w: it changes", ErrIncomplete)
	}
	return id, completeFile(f)
}

// completeFile returns ErrIncomplete if the file is also open for
// writing, or if it obviously lacks its end.
func completeFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return fmt.Errorf("%w: it is empty", ErrIncomplete)
	}
	// The kernel grants a read lease only while the file is not open for writing. Where there
	// are no leases, or they are not for us, executing it fails (ETXTBSY) instead.
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
