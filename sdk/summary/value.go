package summary

import (
	"encoding/json"
	"math"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// null skips a null if that comes next, and reports whether it did.
func (s *scanner) null() bool {
	if s.peek() != 'n' {
		return false
	}
	s.literal("null")
	return true
}

func (s *scanner) literal(word string) {
	if end := s.at + len(word); end <= len(s.in) && string(s.in[s.at:end]) == word {
		s.at = end
		return
	}
	s.want(word)
}

func (s *scanner) str(to *string) {
	switch {
	case s.null():
	case s.peek() == '"':
		*to = string(s.text())
	default:
		s.want("a string")
	}
}

// time reads a time as metav1.Time writes it.
func (s *scanner) time(to *time.Time) {
	switch {
	case s.null():
		*to = time.Time{}
	case s.peek() == '"':
		text := s.text()
		t, err := time.Parse(time.RFC3339, string(text))
		if err != nil && s.err == nil {
			s.fail("%.64q, want a time such as \"2006-01-02T15:04:05Z\"", text)
		}
		*to = t
	default:
		s.want("a time")
	}
}

// text reads a string, whose quote comes next. The result may share the memory of the input.
func (s *scanner) text() []byte {
	start := s.at + 1
	i := start
	for i < len(s.in) && !special[s.in[i]] {
		i++
	}
	if i < len(s.in) && s.in[i] == '"' {
		s.at = i + 1
		return s.in[start:i:i]
	}
	return s.textFrom(start, i)
}

// textFrom is text for a string that begins at start and has its first special byte at i.
func (s *scanner) textFrom(start, i int) []byte {
	for ; i < len(s.in); i++ {
		switch c := s.in[i]; {
		case c == '"':
			s.at = i + 1
			return s.unquote(s.in[start-1 : s.at])
		case c == '\\':
			i++ // an escaped byte does not end the string
		case c < ' ':
			s.at = i
			s.fail("the byte %q inside a string", c)
			return nil
		}
	}
	s.at = len(s.in)
	s.want("the end of a string")
	return nil
}

// special are the bytes that end a string or need decoding.
var special = func() (table [256]bool) {
	for c := range table {
		table[c] = c < ' ' || c == '"' || c == '\\' || c >= 0x80
	}
	return table
}()

// unquote decodes the rare strings with escapes or non-ASCII characters by encoding/json.
func (s *scanner) unquote(quoted []byte) []byte {
	var text string
	if err := json.Unmarshal(quoted, &text); err != nil {
		s.fail("string: %w", err)
	}
	return []byte(text)
}

// unsigned reads a figure that the kubelet stores in a uint64 and casts to int64: above 2^63-1
// it becomes negative.
func (s *scanner) unsigned(to *eviction.Figure) {
	if s.null() {
		*to = eviction.Figure{}
		return
	}
	if v, ok := s.whole(math.MaxUint64); ok {
		*to = eviction.Some(int64(v))
	}
}

// signed reads a figure that the kubelet stores in an int64.
func (s *scanner) signed(to *eviction.Figure) {
	switch {
	case s.null():
		*to = eviction.Figure{}
	case s.peek() == '-':
		s.at++
		if v, ok := s.whole(-math.MinInt64); ok {
			*to = eviction.Some(-int64(v)) // 2^63 is its own negative
		}
	default:
		if v, ok := s.whole(math.MaxInt64); ok {
			*to = eviction.Some(int64(v))
		}
	}
}

// whole reads a number of at most most, without sign, fraction and exponent.
func (s *scanner) whole(most uint64) (v uint64, ok bool) {
	start := s.at
	for s.digit() != 0 {
		d := uint64(s.digit() - '0')
		if v > (most-d)/10 {
			s.at = start
			s.fail("a number that is too large, want one up to %d", most)
			return 0, false
		}
		v = v*10 + d
		s.at++
		if v == 0 {
			break // JSON has no leading zeros
		}
	}
	if s.at == start || s.at < len(s.in) && (s.in[s.at] == '.' || s.in[s.at]|0x20 == 'e') {
		s.at = start
		s.want("a whole number")
		return 0, false
	}
	return v, true
}

// number skips a number of any kind.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.at++
	}
	if s.digit() == '0' {
		s.at++
	} else {
		s.digits()
	}
	if s.at < len(s.in) && s.in[s.at] == '.' {
		s.at++
		s.digits()
	}
	if s.at < len(s.in) && s.in[s.at]|0x20 == 'e' {
		s.at++
		if s.at < len(s.in) && (s.in[s.at] == '+' || s.in[s.at] == '-') {
			s.at++
		}
		s.digits()
	}
}

// digits skips one or more digits.
func (s *scanner) digits() {
	start := s.at
	for s.digit() != 0 {
		s.at++
	}
	if s.at == start {
		s.want("a value")
	}
}

// digit returns the next byte if it is a digit, else 0.
func (s *scanner) digit() byte {
	if s.at < len(s.in) && '0' <= s.in[s.at] && s.in[s.at] <= '9' {
		return s.in[s.at]
	}
	return 0
}
