package launch

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLineBytes is the longest line that an hclog plugin may write (facts of
	// go-plugin's own reader).
	maxLineBytes = 64 << 10
	// ReadRate bounds the bytes per second that are read of one output of a plugin. More costs
	// the host time, and the plugin has to wait until it is read. A plugin that logs everything
	// it does does not come near.
	ReadRate = 4 << 20
	// readBurst bounds the bytes at once.
	readBurst = 1 << 20
)

// follow tells the lines of r until its end.
func follow(r io.Reader, over <-chan struct{}, tell func(line []byte, cut bool)) {
	lines := paced(over, tell)
	_, _ = io.Copy(lines, r)
	lines.flush()
}

// paced returns a writer that passes its lines to tell, at ReadRate until over is closed. It is
// for one goroutine.
func paced(over <-chan struct{}, tell func(line []byte, cut bool)) *splitter {
	pace := rate.NewLimiter(ReadRate, readBurst)
	return &splitter{max: maxLineBytes, emit: tell, wait: func(bytes int) {
		delay := pace.ReserveN(time.Now(), bytes).Delay()
		if delay == 0 {
			return
		}
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-over:
		}
	}}
}

// A splitter cuts what is written to it into lines. A line that is longer than
// max is emitted once, cut; the rest of it is dropped. The line is the callee's
// only during the call.
type splitter struct {
	max  int
	emit func(line []byte, cut bool)
	// wait is called before so many bytes are taken, readBurst at most; it may be nil.
	wait func(bytes int)

	held []byte
	skip bool // up to the next end of line
}

// Write never fails.
func (s *splitter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		part := b[:min(len(b), readBurst)]
		b = b[len(part):]
		if s.wait != nil {
			s.wait(len(part))
		}
		s.split(part)
	}
	return n, nil
}

func (s *splitter) split(b []byte) {
	for len(b) > 0 {
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		b = rest
		if !s.skip {
			room := s.max - len(s.held)
			s.held = append(s.held, line[:min(len(line), room)]...)
			if len(line) > room {
				s.emit(s.held, true)
				s.held, s.skip = s.held[:0], true
			}
		}
		if whole {
			if !s.skip {
				s.emit(bytes.TrimSuffix(s.held, []byte{'\r'}), false)
			}
			s.held, s.skip = s.held[:0], false
		}
	}
}

// flush emits a last line that has no end.
func (s *splitter) flush() {
	if len(s.held) > 0 {
		s.emit(s.held, false)
	}
	s.held, s.skip = nil, false
}
