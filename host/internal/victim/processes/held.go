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
	// mostReleasers bounds the processes that are released at a time.
	mostReleasers = 4
	releaseAgain  = time.Millisecond
)

// processes are held by their descriptors, by id, as long as these are open.
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

// add adds others, in place of those that had their ids.
func (p processes) add(others processes) {
	for pid, fd := range others {
		if _, former := p[pid]; former {
			p.drop(pid)
		}
		p[pid] = fd
	}
}

// keep drops all but these.
func (p processes) keep(pids []int) {
	slices.Sort(pids)
	for pid := range p {
		if _, found := slices.BinarySearch(pids, pid); !found || p.ended(pid) {
			p.drop(pid)
		}
	}
}

// ended reports whether a process has ended, so that its id may be another one's.
func (p processes) ended(pid int) bool {
	poll := []unix.PollFd{{Fd: int32(p[pid]), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0
}

// kill kills them all, with what cannot be killed as the error.
func (p processes) kill() error {
	var errs []error
	for pid, fd := range p {
		if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("kill process %d: %w", pid, err))
		}
	}
	return errors.Join(errs...)
}

// release has the kernel take back the memory of killed processes, and says of how many it
// did. The error is why it never does here.
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

// release takes back the private memory of a process that is dying. The work is the
// caller's, in CPU time as well: a dying process waits for its own. EINVAL is a
// process that shares its memory with one that lives, ESRCH one that has none any more.
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
