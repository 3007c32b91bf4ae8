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

	"github.com/evictd/evictd/plugins/internal/memcg"
)

const (
	// minSlack is the minimum error of the level, in bytes, that is tolerated.
	minSlack = 256 << 10
	// slackPart is the part of the distance to the level that is tolerated as its error: far
	// from the level, looking again in time is cheaper than setting it.
	slackPart = 16
	// retryAfter is the pause after a failure to set a level.
	retryAfter = time.Second
)

// alarm makes the kernel notify when the usage of a version 1 memory cgroup crosses a level, in
// either direction (Documentation/admin-guide/cgroup-v1, memory.txt section 9).
//
// Setting a level blocks in the kernel for some 16 ms (it waits for RCU readers), in which memory
// fills by 50 MiB. So a separate goroutine sets it, while the watcher continues to look, and the
// old level stays in force until the new one is set.
type alarm struct {
	// dir returns the directory of a sample's cgroup by its LimitOf.
	dir func(limitOf string) (string, error)
	// want carries the level to set; only the latest counts.
	want chan wanted
	// rings gets causeKernel when the kernel has notified or a level was set: in both cases it is
	// time to look again.
	rings chan<- string
	// armed is the level in force, 0 for none.
	armed atomic.Int64
	// silent outlives the alarm: the log says once that there are no notifications, until there are.
	silent *atomic.Bool

	// The watcher's last request; only the watcher uses these fields.
	asked   int64
	askedOf string
	askedAt time.Time
}

// wanted is a level, 0 for none, of the cgroup of a sample.
type wanted struct {
	limitOf string
	level   int64
}

func newAlarm(dir func(string) (string, error), rings chan<- string, silent *atomic.Bool) *alarm {
	return &alarm{dir: dir, want: make(chan wanted, 1), rings: rings, silent: silent}
}

// follow requests a new level if the last one no longer serves. Only the watcher calls it.
func (a *alarm) follow(now time.Time, limitOf string, level, usage int64) {
	failed := a.asked != 0 && a.armed.Load() == 0
	if !a.serves(level, usage) || a.asked != 0 && a.askedOf != limitOf || failed && now.Sub(a.askedAt) >= retryAfter {
		a.asked, a.askedOf, a.askedAt = level, limitOf, now
		select {
		case <-a.want:
		default:
		}
		a.want <- wanted{limitOf, level}
	}
}

// serves reports whether the last requested level is close enough to the wanted one. A level at or
// below the usage has been crossed already: the kernel would notify only when the usage falls.
func (a *alarm) serves(level, usage int64) bool {
	if level == 0 || a.asked == 0 || a.asked == level {
		return a.asked == level
	}
	off := a.asked - level
	slack := max(minSlack, (level-usage)/slackPart)
	return -slack <= off && off <= slack && a.asked > usage
}

// ready reports whether the last requested level is in force.
func (a *alarm) ready() bool { return a.asked != 0 && a.armed.Load() == a.asked }

// run sets levels until ctx ends.
func (a *alarm) run(ctx context.Context) {
	var current *registration
	defer func() { current.close() }()
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-a.want:
			next, err := a.register(w)
			current.close()
			current = next
			level := w.level
			switch {
			case err != nil:
				level = 0
				if !a.silent.Swap(true) {
					slog.Warn("memory cgroup gives no notifications, polling instead", "error", err)
				}
			case level != 0:
				a.silent.Store(false)
			}
			a.armed.Store(level)
			memcg.Ring(a.rings, causeKernel)
		}
	}
}

// registration is one level registered with the kernel. Closing the eventfd removes it.
type registration struct {
	event *os.File
	ended chan struct{}
}

func (a *alarm) register(w wanted) (*registration, error) {
	if w.level == 0 {
		return nil, nil
	}
	event, err := a.announce(w)
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
			memcg.Ring(a.rings, causeKernel)
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

// announce makes the kernel write to a new eventfd when the usage crosses a level. The kernel
// needs the two files only for this call.
func (a *alarm) announce(w wanted) (*os.File, error) {
	dir, err := a.dir(w.limitOf)
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
	_, err = fmt.Fprintf(control, "%d %d %d", fd, usage.Fd(), w.level)
	if err = errors.Join(err, control.Close()); err != nil {
		return nil, errors.Join(err, event.Close())
	}
	return event, nil
}
