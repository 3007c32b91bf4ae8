// Package logbuffer writes a log without ever keeping the one who logs waiting: for
// a reader that has stalled, or for room on the disk that evictd may have to relieve.
//
// It knows lines and nothing of what they say.
package logbuffer

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxKept bounds the log that is kept while it cannot be written, in bytes: some thousand
	// lines.
	maxKept = 1 << 20
	// retryAfter is the time that kept lines wait if no line comes after them: on a quiet node
	// that may take hours.
	retryAfter = 5 * time.Second
	// closeTimeout bounds the writing of the last lines.
	closeTimeout = time.Second
)

// A Writer takes lines and has one goroutine write them. What cannot be written,
// for whatever reason, is kept and tried again; what does not fit is dropped,
// counted, and reported when the log flows again. It may be used concurrently. Close
// it after the last line.
type Writer struct {
	to      io.Writer
	dropped atomic.Uint64
	// more is signaled when there is something to write, closing closed by Close,
	// done when nothing is written any more.
	more, closing, done chan struct{}
	once                sync.Once

	mu   sync.Mutex
	kept []byte
	lost int // of dropped, not reported yet
}

// New returns a Writer to a file or pipe.
func New(to io.Writer) *Writer {
	w := &Writer{to: to, more: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{})}
	go w.run()
	return w
}

// Write implements io.Writer. It takes one line, does not wait and does not fail.
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

// Close writes what is left, for a moment: a reader that has stalled does not keep
// the program from ending.
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

// flush writes what is kept, until nothing is or it cannot be written.
func (w *Writer) flush() error {
	for {
		w.mu.Lock()
		if len(w.kept) == 0 && w.lost > 0 {
			w.kept = lostLine(w.lost, time.Now())
			w.lost = 0
		}
		// What is added meanwhile comes after it.
		batch := w.kept
		w.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		n, err := w.to.Write(batch)
		w.mu.Lock()
		w.kept = w.kept[n:]
		if len(w.kept) == 0 {
			w.kept = nil // and its memory
		}
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// lostLine says how many lines are missing, as the log's own handler would.
func lostLine(lines int, now time.Time) []byte {
	return fmt.Appendf(nil, `{"time":%q,"level":"WARN","msg":"lines of the log were lost while it could not be written","lines":%d}`+"\n",
		now.Format(time.RFC3339Nano), lines)
}
