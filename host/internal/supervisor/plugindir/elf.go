package plugindir

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// maxHeaders bounds what is read of a table of headers.
const maxHeaders = 4 << 20

// elfSize returns how many bytes an executable file has at least, by its own
// headers, and 0 if it is not an ELF file. It says nothing about whether the file
// is right otherwise: that is for the kernel.
func elfSize(r io.ReaderAt, size int64) uint64 {
	const magic = "\x7fELF"
	head := make([]byte, 64)
	n, _ := r.ReadAt(head, 0)
	head = head[:n]
	if !bytes.HasPrefix(head, []byte(magic)) {
		if bytes.HasPrefix([]byte(magic), head) {
			return uint64(len(head)) + 1 // not even that much
		}
		return 0
	}
	if n < len(magic)+2 {
		return math.MaxUint64
	}
	var order binary.ByteOrder = binary.LittleEndian
	if head[5] == 2 {
		order = binary.BigEndian
	}
	l := elf64
	if head[4] == 1 {
		l = elf32
	}
	if n < l.header {
		return uint64(l.header)
	}
	half := func(at int) uint64 { return uint64(order.Uint16(head[at:])) }
	need := uint64(l.header)
	for _, t := range []struct {
		at           uint64
		length, size uint64
		entry        func(entry []byte) uint64
	}{
		{l.word(order, head[l.phoff:]), half(l.counts + 2), half(l.counts), func(e []byte) uint64 {
			return add(l.word(order, e[l.phOffset:]), l.word(order, e[l.phSize:]))
		}},
		{l.word(order, head[l.shoff:]), half(l.counts + 6), half(l.counts + 4), func(e []byte) uint64 {
			const noBits = 8 // takes no room in the file
			if order.Uint32(e[4:]) == noBits {
				return 0
			}
			return add(l.word(order, e[l.shOffset:]), l.word(order, e[l.shSize:]))
		}},
	} {
		if t.at == 0 || t.length == 0 {
			continue
		}
		end := add(t.at, t.length*t.size)
		need = max(need, end)
		if end > uint64(size) || t.length*t.size > maxHeaders || t.size < uint64(l.entry) {
			continue
		}
		table := make([]byte, t.length*t.size)
		if _, err := r.ReadAt(table, int64(t.at)); err != nil {
			continue // The file has just become shorter, which the next look finds.
		}
		for ; len(table) > 0; table = table[t.size:] {
			need = max(need, t.entry(table))
		}
	}
	return need
}

// An elfLayout is where things stand in the headers of one class (elf(5)).
type elfLayout struct {
	// header is the size of the file's own one, entry that of the smaller kind of
	// the others.
	header, entry int
	phoff, shoff  int
	// counts is where size and number of program headers and of section headers
	// stand.
	counts           int
	phOffset, phSize int
	shOffset, shSize int
	word             func(order binary.ByteOrder, b []byte) uint64
}

var (
	elf64 = elfLayout{
		header: 64, entry: 56, phoff: 32, shoff: 40, counts: 54, phOffset: 8, phSize: 32, shOffset: 24, shSize: 32,
		word: func(o binary.ByteOrder, b []byte) uint64 { return o.Uint64(b) },
	}
	elf32 = elfLayout{
		header: 52, entry: 32, phoff: 28, shoff: 32, counts: 42, phOffset: 4, phSize: 16, shOffset: 16, shSize: 20,
		word: func(o binary.ByteOrder, b []byte) uint64 { return uint64(o.Uint32(b)) },
	}
)

// add is the sum, or the largest number if that is less.
func add(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
