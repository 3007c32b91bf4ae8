package supervisor

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"
)

// startSlotLimit is how long a start that does not get on keeps its slot.
const startSlotLimit = time.Second

// A startQueue staggers the starts of plugins: on a slow machine all that start at
// once take each other's time, and all miss their limit. As many start at a time
// as there are CPUs, the plugins that come with the host before all others.
type startQueue struct {
	limit time.Duration

	mu      sync.Mutex
	free    int
	waiting []*startSlot
}

func newStartQueue() *startQueue {
	return &startQueue{limit: startSlotLimit, free: runtime.GOMAXPROCS(0)}
}

// A startSlot is a place in the queue, and then the leave to start.
type startSlot struct {
	queue   *startQueue
	builtin bool
	// granted is closed when the start may begin.
	granted chan struct{}

	// Below is guarded by the queue's mutex.
	released bool
	expiry   *time.Timer
}

// join takes the next place in the queue. Release must follow.
func (q *startQueue) join(builtin bool) *startSlot {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := &startSlot{queue: q, builtin: builtin, granted: make(chan struct{})}
	at := len(q.waiting)
	if builtin {
		if custom := slices.IndexFunc(q.waiting, func(w *startSlot) bool { return !w.builtin }); custom >= 0 {
			at = custom
		}
	}
	q.waiting = slices.Insert(q.waiting, at, s)
	q.grant()
	return s
}

// grant hands out the slots that are free. The mutex is held.
func (q *startQueue) grant() {
	for q.free > 0 && len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.free--
		s.expiry = time.AfterFunc(q.limit, s.release)
		close(s.granted)
	}
}

// wait waits for the leave to start.
func (s *startSlot) wait(ctx context.Context) error {
	select {
	case <-s.granted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// release lets the next one start: this one is up or has failed, or has had its slot
// for long enough. Releasing twice is harmless.
func (s *startSlot) release() {
	q := s.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.released {
		return
	}
	s.released = true
	if s.expiry == nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *startSlot) bool { return w == s })
		return
	}
	s.expiry.Stop()
	q.free++
	q.grant()
}
