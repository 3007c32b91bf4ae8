package wire

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// chunk is how many measurements travel in one message.
const chunk = 100

// sender lets plugin code send from any goroutine, and at any time: what comes
// after the call has returned is dropped. A failed send means that the call has
// ended, which plugin code learns from its context.
type sender[W any] struct {
	send func(*W) error

	// mu is held while sending, since a gRPC stream takes one sender at a time.
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

// batch collects measurements and sends them in chunks. When nine tenths of the
// call's time are over it sends what it has and from then on each one at once,
// so that answers given before the deadline arrive even when Measure hangs.
type batch struct {
	send func(*pluginv1.MeasureResponse) error
	late *time.Timer

	// mu is held while sending, since a gRPC stream takes one sender at a time.
	mu        sync.Mutex
	held      []*pluginv1.Measurement
	immediate bool
	closed    bool
	err       error // of the first send that failed
}

func newBatch(ctx context.Context, send func(*pluginv1.MeasureResponse) error) *batch {
	b := &batch{send: send, held: make([]*pluginv1.Measurement, 0, chunk)}
	if deadline, ok := ctx.Deadline(); ok {
		b.late = time.AfterFunc(time.Until(deadline)/10*9, b.hurry)
	}
	return b
}

// add copies what m shares with its owner, who may reuse it at once.
func (b *batch) add(m eviction.Measurement) {
	m.Containers = slices.Clone(m.Containers)
	m.Volumes = slices.Clone(m.Volumes)
	w := new(pluginv1.Measurement)
	encodeMeasurement(w, &m)

	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.held = append(b.held, w)
	if b.immediate || len(b.held) == chunk {
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

// close sends what is left, after a hurry that is under way, and returns the
// first error of all sends.
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

// flush sends what is held; the caller has the lock. Send has encoded the
// message when it returns, so the list can be used again.
func (b *batch) flush() {
	if len(b.held) == 0 {
		return
	}
	if err := b.send(&pluginv1.MeasureResponse{Measurements: b.held}); err != nil && b.err == nil {
		b.err = err
	}
	clear(b.held)
	b.held = b.held[:0]
}
