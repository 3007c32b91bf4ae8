package wire

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// chunk is the maximum number of measurements in one message.
const chunk = 100

// sender lets plugin code send from any goroutine at any time: whatever is sent after the
// call has returned is dropped. Errors of send are ignored: they mean that the call has
// ended, which plugin code sees in its context.
type sender[W any] struct {
	send func(*W) error

	// mu is held while sending, since a gRPC stream allows one send at a time.
	mu     sync.Mutex
	closed bool
}

func (s *sender[W]) put(w *W) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		_ = s.send(w)
	}
}

func (s *sender[W]) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// batch collects measurements and sends them in chunks. After nine tenths of the call's
// time it sends what it has and then each further one at once, so that answers given
// before the deadline arrive even if Measure hangs.
type batch struct {
	send func(measurementChunk) error
	late *time.Timer

	// mu is held while sending, since a gRPC stream allows one send at a time.
	mu        sync.Mutex
	held      measurementChunk
	n         int // measurements in held
	immediate bool
	closed    bool
	err       error // the first error of send
}

func newBatch(ctx context.Context, send func(measurementChunk) error) *batch {
	b := &batch{send: send}
	if deadline, ok := ctx.Deadline(); ok {
		b.late = time.AfterFunc(time.Until(deadline)/10*9, b.hurry)
	}
	return b
}

// add copies m; its owner may reuse the memory it refers to.
func (b *batch) add(m eviction.Measurement) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.held = b.held.with(&m)
	b.n++
	if b.immediate || b.n == chunk {
		b.flush()
	}
}

func (b *batch) hurry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.immediate = true
		b.flush()
	}
}

// close waits for a send in progress, sends what is left and returns the first error of all sends.
func (b *batch) close() error {
	if b.late != nil {
		b.late.Stop()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
	b.closed = true
	return b.err
}

// flush sends the held measurements; the caller holds the lock. The transport may still read
// the chunk after send has returned, so the next one gets new memory.
func (b *batch) flush() {
	if b.n == 0 {
		return
	}
	if err := b.send(b.held); err != nil && b.err == nil {
		b.err = err
	}
	b.held, b.n = make(measurementChunk, 0, cap(b.held)), 0
}
