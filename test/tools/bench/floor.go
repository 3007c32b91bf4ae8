package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// floor is the least that measuring pods can cost: the kernel's own work for the
// files that have the figures, read from descriptors that stay open, without
// looking at what they say.
type floor struct {
	files []*os.File
	fds   []int
	buf   []byte
}

// openFloor opens the files of n pods.
func openFloor(g *cgroups, n int) (*floor, error) {
	f := &floor{buf: make([]byte, 16<<10)}
	for i := range n {
		for _, name := range []string{"memory.usage_in_bytes", "memory.stat"} {
			file, err := os.Open(filepath.Join(g.pod(i), name))
			if err != nil {
				return nil, errors.Join(err, f.close())
			}
			f.files, f.fds = append(f.files, file), append(f.fds, int(file.Fd()))
		}
	}
	return f, nil
}

func (f *floor) read(context.Context) error {
	for i, fd := range f.fds {
		if _, err := syscall.Pread(fd, f.buf, 0); err != nil {
			return fmt.Errorf("read %s: %w", f.files[i].Name(), err)
		}
	}
	return nil
}

func (f *floor) close() error {
	var errs []error
	for _, file := range f.files {
		errs = append(errs, file.Close())
	}
	return errors.Join(errs...)
}
