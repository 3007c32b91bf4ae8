package summary

import (
	"fmt"
	"strings"
)

// maxDepth is the maximum nesting of values. The kubelet's have at most 7 levels.
const maxDepth = 64

// scanner walks over JSON and converts only the requested values. After the first error it is
// at the end of its input: loops end by themselves, and the caller checks the error once.
//
// Like encoding/json for any type, it accepts null as a missing value, and requires skipped
// values to be valid.
type scanner struct {
	in  []byte
	at  int
	err error

	// key is the name of the current member, valid until the next one.
	key []byte
	// first: nothing inside the innermost value has been read yet.
	first bool
	depth int
	path  [maxDepth + 1]frame
}

// frame is the scanner's position inside one object or array.
type frame struct {
	key   []byte // nil in an array and before the first member
	value int    // where the member's value begins
	index int    // of the element, -1 before the first
}

// peek returns the next byte that is not white space, 0 at the end.
func (s *scanner) peek() byte {
	if s.at < len(s.in) && s.in[s.at] > ' ' {
		return s.in[s.at]
	}
	return s.peekBeyondSpace()
}

func (s *scanner) peekBeyondSpace() byte {
	for ; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; c {
		case ' ', '\n', '\t', '\r':
		default:
			return c
		}
	}
	return 0
}

// want records an error: what was expected, and what comes next instead.
func (s *scanner) want(what string) {
	if s.peek(); s.at == len(s.in) {
		s.fail("ends too early, want %s", what)
		return
	}
	s.fail("%s, want %s", s.found(), what)
}

func (s *scanner) found() string {
	switch c := s.peek(); {
	case c == '"':
		return "a string"
	case c == '{':
		return "an object"
	case c == '[':
		return "an array"
	case c == 't' || c == 'f':
		return "a boolean"
	case c == '-' || c >= '0' && c <= '9':
		return "a number"
	default:
		return fmt.Sprintf("the byte %q", c)
	}
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%s (byte %d): %w", s.where(), s.at, fmt.Errorf(format, args...))
		s.at = len(s.in)
	}
}

// where returns the path of the current value: pods[3].memory.workingSetBytes.
func (s *scanner) where() string {
	var b strings.Builder
	for _, f := range s.path[1 : s.depth+1] {
		switch {
		case f.key == nil && f.index < 0: // nothing inside was read yet
		case f.key == nil:
			fmt.Fprintf(&b, "[%d]", f.index)
		case b.Len() > 0:
			fmt.Fprintf(&b, ".%.64s", f.key)
		default:
			fmt.Fprintf(&b, "%.64s", f.key)
		}
	}
	if b.Len() == 0 {
		return "document"
	}
	return strings.ToValidUTF8(b.String(), "?")
}

// enter enters an object or an array. It returns false for null.
func (s *scanner) enter(open byte, what string) bool {
	switch s.peek() {
	case open:
	case 'n':
		s.literal("null")
		return false
	default:
		s.want(what)
		return false
	}
	if s.depth == maxDepth {
		s.fail("nested deeper than %d", maxDepth)
		return false
	}
	s.at++
	s.depth++
	s.path[s.depth] = frame{index: -1}
	s.first = true
	return true
}

func (s *scanner) object() bool { return s.enter('{', "an object") }
func (s *scanner) array() bool  { return s.enter('[', "an array") }

// more moves to the next member or element. At the end it leaves the value and returns false.
func (s *scanner) more(closing byte) bool {
	c := s.peek()
	switch {
	case c == closing:
		s.at++
		s.depth--
		s.first = false
		return false
	case s.first:
		s.first = false
	case c == ',':
		s.at++
	default:
		s.want(fmt.Sprintf("',' or %q", closing))
	}
	return s.err == nil
}

// member moves to the value of the object's next member, and skips the current one if it was not read.
func (s *scanner) member() bool {
	if f := &s.path[s.depth]; f.key != nil && f.value == s.at {
		s.skip()
	}
	if !s.more('}') {
		return false
	}
	if s.peek() != '"' {
		s.want("a name")
		return false
	}
	s.key = s.text()
	if s.peek() != ':' {
		s.want("':'")
		return false
	}
	s.at++
	s.path[s.depth] = frame{key: s.key, value: s.at}
	return s.err == nil
}

// element moves to the array's next element.
func (s *scanner) element() bool {
	if !s.more(']') {
		return false
	}
	s.path[s.depth].index++
	return true
}

// skip skips a value of any kind.
func (s *scanner) skip() {
	switch s.peek() {
	case '{':
		for more := s.object() && s.member(); more; {
			more = s.member()
		}
	case '[':
		for more := s.array() && s.element(); more; more = s.element() {
			s.skip()
		}
	case '"':
		s.text()
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}
