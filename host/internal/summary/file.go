package summary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// file reads the summary from a file. Whoever writes it renames a whole one into
// place.
type file struct {
	path string
	call call
}

func newFile(path string, timeout time.Duration) *file {
	return &file{path: path, call: newCall(timeout, func(context.Context) ([]byte, error) {
		return readRegular(path, MaxBytes)
	})}
}

func (f *file) Fetch(ctx context.Context) ([]byte, error) {
	summary, err := f.call.do(ctx)
	if err != nil {
		return nil, fmt.Errorf("get summary from file://%s: %w", f.path, err)
	}
	return summary, nil
}

func (f *file) Close(ctx context.Context) error { return f.call.close(ctx) }

// readRegular reads a whole file and refuses what could block or have no end.
func readRegular(path string, maxBytes int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", path, info.Size(), maxBytes)
	}
	data := make([]byte, info.Size())
	// A file that is cut while it is read gives what it had.
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return data[:n], nil
}
