package launch

import (
	"bytes"
	"io"
	"time"

	"golang.org/x/time/rate"
)

const (
	// maxLineBytes is the longest line that an hclog plugin may write, as in go-plugin's reader.
	maxLineBytes = 64 << 10
	// ReadRate is the maximum rate, in bytes per second, at which one output of a plugin is read.
	// Reading more would cost the host time, so the plugin has to wait. A plugin that logs
	// everything it does stays far below.
	ReadRate = 4 << 20
	// readBurst is the maximum number of bytes read at once.
	readBurst = 1 << 20
)

// follow passes the lines of r to tell until r ends.
func follow(r io.Reader, over <-chan struct{}, tell func(line []byte, cut bool)) {
	lines := paced(over, tell)
	_, _ = io.Copy(lines, r)
	lines.flush()
}

// paced returns a writer that passes its lines to tell, at ReadRate until over is closed and
// without limit then. It is not safe for concurrent use.
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

// A splitter cuts what is written to it into lines. If a line is longer than max, its beginning is
// emitted with cut set and the rest is dropped. emit must not keep the line.
type splitter struct {
	max  int
	emit func(line []byte, cut bool)
	// wait is called before each part of at most readBurst bytes is taken; it may be nil.
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

// flush emits a last line that has no line break.
func (s *splitter) flush() {
	if len(s.held) > 0 {
		s.emit(s.held, false)
	}
	s.held, s.skip = nil, false
}
