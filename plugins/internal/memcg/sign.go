package memcg

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/shared/pace"
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
	// minGap is the minimum time between looks if the kernel keeps notifying.
	minGap = time.Millisecond
)

// A Sign is a file by which the kernel notifies of a shortage: it may precede a crossing.
type Sign struct {
	cause, path, trigger string
}

// WatchSigns sends the causes of signs until ctx ends. Those that this kernel does not have, or does
// not give to this process, are missing: the poll does without.
func WatchSigns(ctx context.Context, signs func() []Sign, rings chan<- string) {
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
func watchOpenSigns(ctx context.Context, signs []Sign, rings chan<- string) {
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
			Ring(rings, s.cause)
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

func (s Sign) open() (*os.File, error) {
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

// Signs returns the signs of a shortage of a signal's memory: of its cgroup, and of those above.
func (n *Node) Signs(s eviction.Signal) (all []Sign) {
	if s == eviction.MemoryAvailable { // only the "/" of a container has memory.events
		return []Sign{{causePSI, n.Hierarchy.FS.Path("/proc/pressure/memory"), stallTrigger}, {causeEvents, filepath.Join(n.Hierarchy.Path("/"), "memory.events"), ""}}
	}
	cgroup, err := n.Cgroup(s)
	if err != nil || n.Hierarchy.Version != nodefs.V2 {
		return nil
	}
	for ; cgroup != "/"; cgroup = filepath.Dir(cgroup) {
		dir := n.Hierarchy.Path(cgroup)
		all = append(all, Sign{causePSI, filepath.Join(dir, "memory.pressure"), stallTrigger}, Sign{causeEvents, filepath.Join(dir, "memory.events"), ""})
	}
	return all
}

// Ring sends a cause, unless another one waits.
func Ring(rings chan<- string, cause string) {
	select {
	case rings <- cause:
	default:
	}
}

// WaitForNext waits until it is time to look again and returns the cause. After a look that was not for a
// notification the next one is processed at once.
func WaitForNext(ctx context.Context, again time.Duration, rings <-chan string, last string) (cause string) {
	looked := time.Now()
	timer := time.NewTimer(max(again, minGap))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return pace.CausePoll
	case <-timer.C:
		return pace.CausePoll
	case cause = <-rings:
	}
	if last == pace.CausePoll {
		return cause
	}
	timer.Reset(minGap - time.Since(looked))
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return cause
}
