package walk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// block is a part of a directory as getdents64 returns it.
type block struct {
	next, end int
	bytes     [32 << 10]byte
}

// blocks are shared by all walks: a walk needs one for each level of depth, but only while it runs.
var blocks = sync.Pool{New: func() any { return new(block) }}

// entry is one name in a directory. It is valid until its block is filled again.
type entry struct {
	name   []byte // including its terminating zero byte
	ino    uint64 // of the file, where nothing is mounted over it
	cookie int64  // the position after the entry
	kind   uint8  // DT_*
	size   int
}

// The offsets of the fields of struct linux_dirent64 (man 2 getdents64).
const (
	offCookie = 8
	offSize   = 16
	offKind   = 18
	offName   = 19
)

var errMalformed = errors.New("malformed directory entry")

func (b *block) reset()      { b.next, b.end = 0, 0 }
func (b *block) empty() bool { return b.next >= b.end }

// fill reads the next part of the directory fd; it returns false at the end.
func (b *block) fill(fd int) (bool, error) {
	b.reset()
	n, err := getdents(fd, b.bytes[:])
	b.end = max(0, n)
	return n > 0, err
}

// peek returns the first entry of a block that is not empty.
func (b *block) peek() (entry, error) {
	return parseEntry(b.bytes[b.next:b.end])
}

// drop skips e, which peek returned.
func (b *block) drop(e entry) { b.next += e.size }

// parseEntry returns the first entry in p.
func parseEntry(p []byte) (entry, error) {
	if len(p) <= offName {
		return entry{}, errMalformed
	}
	size := int(binary.NativeEndian.Uint16(p[offSize:]))
	if size <= offName || size > len(p) {
		return entry{}, errMalformed
	}
	length := bytes.IndexByte(p[offName:size], 0)
	if length <= 0 {
		return entry{}, errMalformed
	}
	return entry{
		name:   p[offName : offName+length+1],
		ino:    binary.NativeEndian.Uint64(p),
		cookie: int64(binary.NativeEndian.Uint64(p[offCookie:])),
		kind:   p[offKind],
		size:   size,
	}, nil
}

// String returns the name for messages.
func (e entry) String() string { return unix.ByteSliceToString(e.name) }

// dots reports whether e is "." or "..".
func (e entry) dots() bool { return string(e.name) == ".\x00" || string(e.name) == "..\x00" }
