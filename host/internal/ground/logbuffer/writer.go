// Package logbuffer writes a log without ever blocking its caller. Neither a stalled reader nor a
// full disk, which evictd may have to relieve, delays it.
//
// It does not interpret lines.
package logbuffer

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxKept bounds in bytes the log that is kept while it cannot be written: some thousand lines.
	maxKept = 1 << 20
	// retryAfter is when kept lines are retried without a new one, which may take hours on a quiet node.
	retryAfter = 5 * time.Second
	// closeTimeout bounds writing the last lines.
	closeTimeout = time.Second
)

// A Writer queues lines, which one goroutine writes. It keeps and retries lines after any error; it
// drops and counts those beyond maxKept, and reports them when writing works again. It is safe for
// concurrent use. Close it after the last line.
type Writer struct {
	to      io.Writer
	dropped atomic.Uint64
	// more signals that there is something to write; Close closes closing; done is closed when
	// nothing is written any more.
	more, closing, done chan struct{}
	once                sync.Once

	mu   sync.Mutex
	kept []byte
	lost int // dropped and not reported yet
}

// New returns a Writer to a file or pipe.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, more: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write implements io.Writer. It queues one line, never blocks and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if len(w.kept)+len(line) > maxKept {
		w.lost++
		w.dropped.Add(1)
	} else {
		w.kept = append(w.kept, line...)
	}
	w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return len(line), nil
}

// Dropped returns the number of lines dropped.
func (w *Writer) Dropped() uint64 { return w.dropped.Load() }

// Close writes the rest for a moment: a stalled reader does not keep the program from ending.
func (w *Writer) Close() error {
	w.once.Do(func() { close(w.closing) })
	select {
	case <-w.done:
	case <-time.After(closeTimeout):
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.kept) > 0 {
		return fmt.Errorf("%d bytes of the log could not be written", len(w.kept))
	}
	return nil
}

// run writes until Close, and once more.
func (w *Writer) run() {
	defer close(w.done)
	var retry <-chan time.Time
	for {
		select {
		case <-w.more:
		case <-retry:
		case <-w.closing:
			_ = w.flush() // Close tells
			return
		}
		retry = nil
		if w.flush() != nil {
			retry = time.After(retryAfter)
		}
	}
}

// flush writes the queue until it is empty or writing fails.
func (w *Writer) flush() error {
	for {
		w.mu.Lock()
		if len(w.kept) == 0 && w.lost > 0 {
			// As the log's own handler would.
			w.kept = fmt.Appendf(nil, `{"time":%q,"level":"WARN","msg":"lines of the log were lost while it could not be written","lines":%d}`+"\n",
				time.Now().Format(time.RFC3339Nano), w.lost)
			w.lost = 0
		}
		// New lines are appended after it.
		batch := w.kept
		w.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		n, err := w.to.Write(batch)
		w.mu.Lock()
		w.kept = w.kept[n:]
		if len(w.kept) == 0 {
			w.kept = nil // frees its memory
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}
