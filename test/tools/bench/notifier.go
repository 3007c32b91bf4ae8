package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A notifier is the peer of a crossing: the kernel's notification for the same level, read by a
// goroutine that does nothing else.
type notifier struct {
	event *os.File
	rings chan time.Duration // when it rang, in CLOCK_MONOTONIC
}

// newNotifier watches the usage of a cgroup (cgroup-v1/memory.txt, section 9).
func newNotifier(dir string, levelBytes int64) (*notifier, error) {
	usage, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = usage.Close() }() // the kernel needs it only for this call
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	n := &notifier{event: os.NewFile(uintptr(fd), "eventfd"), rings: make(chan time.Duration, 64)}
	control := fmt.Sprintf("%d %d %d", fd, usage.Fd(), levelBytes)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.event_control"), []byte(control), 0); err != nil {
		return nil, errors.Join(err, n.event.Close())
	}
	go n.read()
	return n, nil
}

// read ends when the notifier is closed.
func (n *notifier) read() {
	defer close(n.rings)
	var count [8]byte
	for {
		if _, err := n.event.Read(count[:]); err != nil {
			return
		}
		select {
		case n.rings <- monotonic():
		default: // not read
		}
	}
}

// drain discards the notifications so far.
func (n *notifier) drain() {
	for {
		select {
		case <-n.rings:
		default:
			return
		}
	}
}

func (n *notifier) close() error {
	err := n.event.Close()
	for range n.rings {
		continue
	}
	return err
}
