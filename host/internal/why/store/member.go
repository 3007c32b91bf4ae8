package store

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/evictd/evictd/host/internal/core/decision"
)

const (
	// maxMember and maxDocument bound the size of a document in bytes, in the file and unpacked.
	maxMember   = 4 << 20
	maxDocument = 64 << 20
	// fixedHeader is the size of a gzip header up to its extra field, with the length of that.
	fixedHeader = 12
	// lengthAt is the offset of a member's length.
	lengthAt = fixedHeader + 4
)

// errTorn reports an incomplete member: evictd died while writing it, or is still writing.
var errTorn = errors.New("ends early")

// encode returns a member of a segment: a gzip member, so that zcat can read a segment. Its extra
// field holds the length of the member and the head, so that a reader finds a record without
// unpacking those before it.
func encode(head decision.Head, document any) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	const field = 4 // two letters and a length
	if 2*field+4+len(text) > 1<<16-1 {
		return nil, fmt.Errorf("head has %d bytes, want less than 64 KiB", len(text))
	}
	extra := append([]byte{'E', 'L', 4, 0, 0, 0, 0, 0, 'E', 'H'}, binary.LittleEndian.AppendUint16(nil, uint16(len(text)))...)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Extra = append(extra, text...)
	if err := json.NewEncoder(z).Encode(document); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if b.Len() > maxMember {
		return nil, fmt.Errorf("has %d bytes, want at most %d", b.Len(), maxMember)
	}
	binary.LittleEndian.PutUint32(b.Bytes()[lengthAt:], uint32(b.Len()))
	return b.Bytes(), nil
}

// A member locates one document in a segment.
type member struct {
	at, length int64
	head       decision.Head
	passedOver bool
}

// members calls use for each member, reading only headers, and returns the end of the last valid
// one. The error describes what follows there. It decodes a head only if its text matters: decoding
// all of them would dominate the time.
func members(f io.ReaderAt, size int64, matters func(text []byte) bool, use func(member) error) (end int64, err error) {
	buf := make([]byte, 1<<10)
	for end < size {
		m, err := memberAt(f, end, size, matters, &buf)
		if err != nil {
			return end, err
		}
		if !m.passedOver {
			if err := use(m); err != nil {
				return end, err
			}
		}
		end += m.length
	}
	return end, nil
}

func memberAt(f io.ReaderAt, at, size int64, matters func(text []byte) bool, buf *[]byte) (member, error) {
	n, err := f.ReadAt((*buf)[:min(int64(len(*buf)), size-at)], at)
	if err != nil && !errors.Is(err, io.EOF) {
		return member{}, err
	}
	if n < lengthAt+4 {
		return member{}, errTorn
	}
	b := (*buf)[:n]
	extra := int(binary.LittleEndian.Uint16(b[fixedHeader-2:]))
	if !bytes.Equal(b[:4], []byte{0x1f, 0x8b, 8, 4}) || !bytes.Equal(b[fixedHeader:lengthAt], []byte{'E', 'L', 4, 0}) || extra < 12 {
		return member{}, errors.New("is no record of a decision")
	}
	length := int64(binary.LittleEndian.Uint32(b[lengthAt:]))
	switch {
	case length > maxMember || length < int64(fixedHeader+extra):
		return member{}, fmt.Errorf("says that it has %d bytes", length)
	case at+length > size:
		return member{}, errTorn
	}
	if missing := fixedHeader + extra - n; missing > 0 {
		b = append(b, make([]byte, missing)...)
		if _, err := f.ReadAt(b[n:], at+int64(n)); err != nil {
			return member{}, err
		}
		*buf = b
	}
	m := member{at: at, length: length}
	text := b[lengthAt+4 : fixedHeader+extra]
	if len(text) < 4 || string(text[:2]) != "EH" || int(binary.LittleEndian.Uint16(text[2:])) != len(text)-4 {
		err = errors.New("has no head")
	} else if m.passedOver = !matters(text[4:]); m.passedOver {
		err = nil
	} else if err = json.Unmarshal(text[4:], &m.head); err != nil {
		err = fmt.Errorf("has a head that cannot be read: %w", err)
	}
	switch {
	case err == nil:
		return m, nil
	case at+length == size: // incomplete
		return member{}, errTorn
	default:
		return member{}, err
	}
}

// document returns the document in a member after checking its checksum.
func document(f io.ReaderAt, m member) ([]byte, error) {
	z, err := gzip.NewReader(io.NewSectionReader(f, m.at, m.length))
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	data, err := io.ReadAll(io.LimitReader(z, maxDocument+1))
	if err == nil && len(data) > maxDocument {
		err = fmt.Errorf("has more than %d bytes", maxDocument)
	}
	return data, err
}
