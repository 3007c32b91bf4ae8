package supervisor

import (
	"runtime"
	"slices"
	"time"
)

// startSlotLimit is how long a start that does not get on keeps its slot.
const startSlotLimit = time.Second

// A startQueue staggers the starts of plugins: on a slow machine all that start at
// once take each other's time, and all miss their limit. As many start at a time
// as there are CPUs, the plugins that come with the host before all others.
type startQueue struct {
	limit time.Duration
	// after runs a function after some time, in the goroutine that owns the queue.
	after   func(time.Duration, func()) *time.Timer
	free    int
	waiting []*startSlot
}

func newStartQueue() *startQueue {
	return &startQueue{limit: startSlotLimit, free: runtime.GOMAXPROCS(0)}
}

// A startSlot is a place in the queue, and once it is granted the leave to start.
type startSlot struct {
	builtin, granted, released bool
	expiry                     *time.Timer
}

// join takes the next place in the queue. Release must follow.
func (q *startQueue) join(builtin bool) *startSlot {
	s := &startSlot{builtin: builtin}
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

// grant hands out the slots that are free.
func (q *startQueue) grant() {
	for q.free > 0 && len(q.waiting) > 0 {
		s := q.waiting[0]
		q.waiting = q.waiting[1:]
		q.free--
		s.granted = true
		s.expiry = q.after(q.limit, func() { q.release(s) })
	}
}

// release lets the next one start: this one is up or has failed, or has had its slot
// for long enough. Releasing twice is harmless, and so is releasing none.
func (q *startQueue) release(s *startSlot) {
	if s == nil || s.released {
		return
	}
	s.released = true
	if !s.granted {
		q.waiting = slices.DeleteFunc(q.waiting, func(w *startSlot) bool { return w == s })
		return
	}
	s.expiry.Stop()
	q.free++
	q.grant()
}
