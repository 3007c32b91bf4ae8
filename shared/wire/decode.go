package wire

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/eviction"
)

// errMalformed means that the bytes are not a message of the expected type.
var errMalformed = errors.New("malformed message")

// reader reads the fields of one message. The strings that it returns share the memory of the whole
// message, which saves thousands of allocations: clone a string to keep it for long.
type reader struct {
	rest string
	// outer holds the unread rest of each of the depth enclosing messages.
	outer [maxDepth]string
	depth int

	// The current field: its number and, depending on its wire type, its value or bytes.
	num   int
	value uint64
	bytes string

	err error
}

// maxDepth is the nesting depth of a volume in the pod of a candidate.
const maxDepth = 3

// enter starts reading the current field as a nested message. At its end next returns false,
// and the reader continues with the enclosing message.
func (r *reader) enter() {
	r.outer[r.depth] = r.rest
	r.depth++
	r.rest = r.bytes
}

// next reads a field; it returns false at the end and if err is set.
func (r *reader) next() bool {
	if r.err != nil {
		return false
	}
	if r.rest == "" {
		if r.depth > 0 {
			r.depth--
			r.rest = r.outer[r.depth]
		}
		return false
	}
	tag := r.uvarint()
	num, wireType := protowire.DecodeTag(tag)
	r.num, r.value, r.bytes = int(num), 0, ""
	if !num.IsValid() {
		r.err = errMalformed
	}
	switch wireType {
	case protowire.VarintType:
		r.value = r.uvarint()
	case protowire.BytesType:
		r.bytes = r.cut(r.uvarint())
	case protowire.Fixed32Type:
		r.value = littleEndian(r.cut(4))
	case protowire.Fixed64Type:
		r.value = littleEndian(r.cut(8))
	default: // groups, which proto3 does not have
		r.err = errMalformed
	}
	return r.err == nil
}

// uvarint reads a number of at most 64 bits in at most ten bytes. Most have one.
func (r *reader) uvarint() uint64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 {
		v := uint64(r.rest[0])
		r.rest = r.rest[1:]
		return v
	}
	return r.longUvarint()
}

func (r *reader) longUvarint() uint64 {
	v, n := protowire.ConsumeVarint([]byte(r.rest[:min(len(r.rest), 10)]))
	if n < 0 {
		r.err = errMalformed
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) cut(n uint64) string {
	if r.err != nil || n > uint64(len(r.rest)) {
		r.err = errMalformed
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func littleEndian(s string) uint64 {
	var v uint64
	for i := range len(s) {
		v |= uint64(s[i]) << (8 * i)
	}
	return v
}

// pair reads the current field as a message of two texts.
func (r *reader) pair() (first, second string) {
	for r.enter(); r.next(); {
		switch r.num {
		case 1:
			first = r.text()
		case 2:
			second = r.text()
		}
	}
	return first, second
}

// text returns the current field as a string; it sets err if that is not UTF-8.
func (r *reader) text() string {
	if !valid(r.bytes) {
		r.err = errMalformed
	}
	return r.bytes
}

// valid reports whether s is UTF-8. Most texts are short and ASCII, which utf8.ValidString
// checks byte by byte: it would take a fifth of the conversion's time.
func valid(s string) bool {
	n := len(s)
	if n < 8 {
		return utf8.ValidString(s)
	}
	high := eight(s, n-8)
	for i := 0; i < n-8; i += 8 {
		high |= eight(s, i)
	}
	return high&0x8080808080808080 == 0 || utf8.ValidString(s)
}

// eight returns eight bytes of s, in one machine instruction.
func eight(s string, i int) uint64 {
	s = s[i : i+8]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

func (r *reader) int() int64 { return int64(r.value) }
func (r *reader) bool() bool { return r.value != 0 }

// atMost sets err if a pod already has n >= most entries of the kind many.
func (r *reader) atMost(many string, n, most int) {
	if n >= most {
		r.err = fmt.Errorf("more than %d %s of one pod", most, many)
	}
}

// count returns how often field n occurs in the unread rest.
func (r *reader) count(n int) int {
	total := 0
	for scan := (reader{rest: r.rest}); scan.next(); {
		if scan.num == n {
			total++
		}
	}
	return total
}

// grow appends a zero element to list and returns a pointer to it. Callers preallocate
// lists that will be long.
func grow[T any](list *[]T) *T {
	var zero T
	*list = append(*list, zero)
	return &(*list)[len(*list)-1]
}

// lists holds the short lists of all rows of a message; each row gets a slice of them. One
// growing array replaces one allocation per row.
type lists struct {
	volumes    []eviction.Volume
	containers []eviction.Container
	usage      []eviction.SignalUsage
}

// few is the largest number of entries of the first row from which the size of the other rows
// is estimated.
const few = 8

// expect reserves room for that many more rows like the first one, unless that one is unusually
// long: a message must not reserve more memory than it has bytes.
func (l *lists) expect(more int) {
	l.volumes = roomFor(l.volumes, more)
	l.containers = roomFor(l.containers, more)
	l.usage = roomFor(l.usage, more)
}

func roomFor[T any](first []T, more int) []T {
	if len(first) > few {
		return first
	}
	return slices.Grow(first, len(first)*more)
}

// since returns the elements appended to list after its first n, with no spare capacity.
func since[T any](list []T, n int) []T {
	if len(list) == n {
		return nil
	}
	return list[n:len(list):len(list)]
}
