package memory

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	causePSI    = "psi"
	causeEvents = "memory.events"

	// stallTrigger makes the kernel notify after tasks were stalled on memory for 100 ms of 2 s
	// (Documentation/accounting/psi.rst). Without CAP_SYS_RESOURCE it takes no shorter window.
	stallTrigger = "some 100000 2000000\x00"
	// signInterval bounds how often a sign makes the watcher look: the page cache of pods at their
	// limit changes memory.events all the time.
	signInterval = 25 * time.Millisecond
	// reopenAfter is the interval at which missing files are opened again.
	reopenAfter = 10 * time.Second
)

// A sign is a file by which the kernel notifies of a shortage: it may precede a crossing.
type sign struct {
	cause, path, trigger string
}

// watchSigns sends the causes of signs until ctx ends. Those that this kernel does not have, or does
// not give to this process, are missing: the poll does without.
func watchSigns(ctx context.Context, signs func() []sign, rings chan<- string) {
	for ctx.Err() == nil {
		watchOpenSigns(ctx, signs(), rings)
		select {
		case <-ctx.Done():
		case <-time.After(reopenAfter):
		}
	}
}

// openSign is an open file of a sign.
type openSign struct {
	*os.File
	cause string
}

// watchOpenSigns watches the signs that can be opened until ctx ends or their cgroup is removed.
func watchOpenSigns(ctx context.Context, signs []sign, rings chan<- string) {
	end, stop, err := os.Pipe()
	if err != nil {
		return
	}
	defer func() { _, _ = end.Close(), stop.Close() }()
	defer context.AfterFunc(ctx, func() { _ = stop.Close() })()
	polled := []unix.PollFd{{Fd: int32(end.Fd()), Events: unix.POLLIN}}
	var all []openSign
	for _, s := range signs {
		if f, err := s.open(); err == nil {
			defer func() { _ = f.Close() }() // nothing is left to write
			all = append(all, openSign{f, s.cause})
			polled = append(polled, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLPRI})
		}
	}
	for len(all) > 0 {
		n, err := unix.Poll(polled, int(reopenAfter.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) || ctx.Err() != nil || !ringFor(all, polled[1:], n > 0, rings) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(signInterval):
		}
	}
}

// ringFor sends the cause of a sign that the kernel has notified of. It returns false if a cgroup was
// removed, of which the kernel does not notify.
func ringFor(all []openSign, polled []unix.PollFd, notified bool, rings chan<- string) bool {
	for i, s := range all {
		if notified && polled[i].Revents == 0 {
			continue
		}
		if rearm(s.File) != nil {
			return false
		}
		if notified {
			ring(rings, s.cause)
		}
	}
	return true
}

// rearm reads a file, after which the kernel notifies of its next change.
func rearm(f *os.File) error {
	var content [256]byte
	_, err := f.ReadAt(content[:], 0)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (s sign) open() (*os.File, error) {
	flag := os.O_RDONLY
	if s.trigger != "" {
		flag = os.O_RDWR
	}
	f, err := os.OpenFile(s.path, flag, 0)
	if err != nil {
		return nil, err
	}
	if s.trigger != "" {
		_, err = f.WriteString(s.trigger)
	}
	if err = errors.Join(err, rearm(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
