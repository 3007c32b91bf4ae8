package processes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostReleasers bounds the parallel releases.
	mostReleasers = 4
	releaseAgain  = time.Millisecond
)

// processes maps the ids of processes to their open pidfds.
type processes map[int]int

func (p processes) close() {
	for pid := range p {
		p.drop(pid)
	}
}

func (p processes) drop(pid int) {
	_ = unix.Close(p[pid]) // nothing was written
	delete(p, pid)
}

// add adds others, replacing those with the same ids.
func (p processes) add(others processes) {
	for pid, fd := range others {
		if _, former := p[pid]; former {
			p.drop(pid)
		}
		p[pid] = fd
	}
}

// keep drops all processes except pids, and those that have ended.
func (p processes) keep(pids []int) {
	slices.Sort(pids)
	for pid := range p {
		if _, found := slices.BinarySearch(pids, pid); !found || p.ended(pid) {
			p.drop(pid)
		}
	}
}

// ended reports whether a process has ended, so that its id may be reused.
func (p processes) ended(pid int) bool {
	poll := []unix.PollFd{{Fd: int32(p[pid]), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// kill kills all of them. The error lists those that cannot be killed.
func (p processes) kill() error {
	var errs []error
	for pid, fd := range p {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("kill process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// release asks the kernel to reclaim the memory of killed processes, and returns for how many it
// did. missing is an error if the kernel does not support it.
func (p processes) release(ctx context.Context) (released int, missing error) {
	left := make(chan int, len(p))
	for _, fd := range slices.Sorted(maps.Values(p)) {
		left <- fd
	}
	close(left)
	var count atomic.Int64
	var refused atomic.Pointer[error]
	var working sync.WaitGroup
	for range min(len(p), mostReleasers, runtime.GOMAXPROCS(0)) {
		working.Go(func() {
			for fd := range left {
				switch err := release(ctx, fd); {
				case err == nil:
					count.Add(1)
				case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
					err = fmt.Errorf("process_mrelease (Linux 5.15): %w", err)
					refused.Store(&err)
					return
				}
			}
		})
	}
	working.Wait()
	if err := refused.Load(); err != nil {
		missing = *err
	}
	return int(count.Load()), missing
}

// release reclaims the private memory of a dying process on the caller's CPU time: the dying
// process itself may wait long for its own. EINVAL means that a live process shares the memory,
// ESRCH that there is none left.
func release(ctx context.Context, pidfd int) error {
	for {
		_, _, errno := unix.Syscall(unix.SYS_PROCESS_MRELEASE, uintptr(pidfd), 0, 0)
		switch errno {
		case 0:
			return nil
		case unix.EAGAIN, unix.EINTR: // part of it was in use
		default:
			return errno
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(releaseAgain):
		}
	}
}
