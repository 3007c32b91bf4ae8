package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// minSlack is the distance by which the level may be off before it is set again, in bytes.
	minSlack = 256 << 10
	// slackPart is the part of the distance to the level that it may be off:
	// while it is far away, looking again in time is cheaper than setting it.
	slackPart = 16
	// retryAfter is the pause after a level could not be set.
	retryAfter = time.Second
)

// alarm makes the kernel call when the usage of a version 1 memory cgroup
// passes a level, in either direction (Documentation/admin-guide/cgroup-v1,
// memory.txt section 9).
//
// Setting a level blocks in the kernel for some 16 ms (it waits for RCU readers)
// and memory fills by 50 MiB in that time. So a goroutine of its own does it,
// while the watcher goes on looking, and the old level stays set until the new
// one is.
type alarm struct {
	// dir is where the cgroup is.
	dir func() (string, error)
	// want carries the level to set, 0 for none; only the newest counts.
	want chan int64
	// rings gets a value when the kernel has called or a level was set: either
	// way it is time to look again.
	rings chan struct{}
	// armed is the level in force, 0 for none.
	armed atomic.Int64

	// The watcher's own memory of what it asked for.
	asked   int64
	askedAt time.Time
}

func newAlarm(dir func() (string, error)) *alarm {
	return &alarm{dir: dir, want: make(chan int64, 1), rings: make(chan struct{}, 1)}
}

// follow asks for another level when the present one does not serve for level
// any more. Only the watcher calls it.
func (a *alarm) follow(now time.Time, level, usage int64) {
	if !a.serves(level, usage) || a.failed() && now.Sub(a.askedAt) >= retryAfter {
		a.asked, a.askedAt = level, now
		select {
		case <-a.want:
		default:
		}
		a.want <- level
	}
}

// serves tells whether the level asked for is close enough to the wanted one. A
// level at or below the usage has been passed: the kernel would call only on the
// way down.
func (a *alarm) serves(level, usage int64) bool {
	if level == 0 || a.asked == 0 || a.asked == level {
		return a.asked == level
	}
	off := a.asked - level
	slack := max(minSlack, (level-usage)/slackPart)
	return -slack <= off && off <= slack && a.asked > usage
}

func (a *alarm) failed() bool { return a.asked != 0 && a.armed.Load() == 0 }

// ready tells whether the kernel will call at the level asked for.
func (a *alarm) ready() bool { return a.asked != 0 && a.armed.Load() == a.asked }

// run sets levels until ctx ends.
func (a *alarm) run(ctx context.Context) {
	var current *registration
	defer func() { current.close() }()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case level := <-a.want:
			next, err := a.register(level)
			current.close()
			current = next
			if err != nil {
				level = 0
				if !failing {
					slog.Warn("memory cgroup gives no notifications, polling instead", "error", err)
				}
			}
			failing = err != nil
			a.armed.Store(level)
			a.ring()
		}
	}
}

func (a *alarm) ring() {
	select {
	case a.rings <- struct{}{}:
	default:
	}
}

// registration is one level known to the kernel. Closing the eventfd is what
// removes it.
type registration struct {
	event *os.File
	ended chan struct{}
}

func (a *alarm) register(level int64) (*registration, error) {
	if level == 0 {
		return nil, nil
	}
	event, err := a.announce(level)
	if err != nil {
		return nil, fmt.Errorf("watch memory usage: %w", err)
	}
	r := &registration{event: event, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		var count [8]byte
		for {
			if _, err := event.Read(count[:]); err != nil {
				return // closed
			}
			a.ring()
		}
	}()
	return r, nil
}

func (r *registration) close() {
	if r == nil {
		return
	}
	_ = r.event.Close()
	<-r.ended
}

// announce tells the kernel to write to a new eventfd when the usage passes
// level. The kernel looks at the two files only now.
func (a *alarm) announce(level int64) (*os.File, error) {
	dir, err := a.dir()
	if err != nil {
		return nil, err
	}
	usage, err := os.Open(filepath.Join(dir, "memory.usage_in_bytes"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = usage.Close() }() // read only
	control, err := os.OpenFile(filepath.Join(dir, "cgroup.event_control"), os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(os.NewSyscallError("eventfd", err), control.Close())
	}
	event := os.NewFile(uintptr(fd), "eventfd")
	_, err = fmt.Fprintf(control, "%d %d %d", fd, usage.Fd(), level)
	if err = errors.Join(err, control.Close()); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return event, nil
}
