package main

import (
	"context"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// floor measures the minimum cost of measuring pods: the kernel's work for the files with the
// figures, read from descriptors that stay open, without parsing them.
type floor struct {
	fds []int
	buf []byte
}

// openFloor opens the files of n pods.
func openFloor(g *cgroups, n int) (*floor, error) {
	f := &floor{buf: make([]byte, 16<<10)}
	for i := range n {
		for _, name := range []string{"memory.usage_in_bytes", "memory.stat"} {
			path := filepath.Join(g.pod(i), name)
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				f.close()
				return nil, fmt.Errorf("open %s: %w", path, err)
			}
			f.fds = append(f.fds, fd)
		}
	}
	return f, nil
}

func (f *floor) read(context.Context) error {
	for _, fd := range f.fds {
		if _, err := unix.Pread(fd, f.buf, 0); err != nil {
			return fmt.Errorf("read the figures of a pod: %w", err)
		}
	}
	return nil
}

func (f *floor) close() {
	for _, fd := range f.fds {
		_ = unix.Close(fd) // nothing was written
	}
}
