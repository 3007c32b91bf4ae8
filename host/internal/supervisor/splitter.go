package supervisor

import "bytes"

// A splitter cuts what is written to it into lines. A line that is longer than
// max is emitted once, cut; the rest of it is dropped. The line is the callee's
// only during the call.
type splitter struct {
	max  int
	emit func(line []byte, cut bool)

	held []byte
	skip bool // up to the next end of line
}

// Write never fails.
func (s *splitter) Write(b []byte) (int, error) {
	n := len(b)
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
	return n, nil
}

// flush emits a last line that has no end.
func (s *splitter) flush() {
	if len(s.held) > 0 {
		s.emit(s.held, false)
	}
	s.held, s.skip = nil, false
}
