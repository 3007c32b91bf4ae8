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

// watchOpenSigns watches the signs that can be opened until ctx ends or their cgroup is removed.
func watchOpenSigns(ctx context.Context, signs []sign, rings chan<- string) {
	end, stop, err := os.Pipe()
	if err != nil {
		return
	}
	defer func() { _, _ = end.Close(), stop.Close() }()
	defer context.AfterFunc(ctx, func() { _ = stop.Close() })()
	polled := []unix.PollFd{{Fd: int32(end.Fd()), Events: unix.POLLIN}}
	var open []*os.File
	var causes []string
	for _, s := range signs {
		if f, err := s.open(); err == nil && rearm(f) == nil {
			defer func() { _ = f.Close() }() // nothing is left to write
			open, causes = append(open, f), append(causes, s.cause)
			polled = append(polled, unix.PollFd{Fd: int32(f.Fd()), Events: unix.POLLPRI})
		}
	}
	for len(open) > 0 {
		n, err := unix.Poll(polled, int(reopenAfter.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) || ctx.Err() != nil {
			return
		}
		for i, f := range open {
			if n > 0 && polled[i+1].Revents == 0 {
				continue
			}
			if rearm(f) != nil { // the cgroup was removed, of which the kernel does not notify
				return
			}
			if n > 0 {
				select {
				case rings <- causes[i]:
				default:
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(signInterval):
		}
	}
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
	if s.trigger == "" {
		return os.Open(s.path)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(s.trigger); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
