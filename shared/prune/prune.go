// Package prune copies the wanted fields of a protobuf message, within bounds, before it is decoded:
// the author of an object decides how large the others are.
//
// It knows neither pods nor containers: its callers have the tables of fields.
package prune

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxLeafBytes bounds a field without a bound of its own, generously for names.
const maxLeafBytes = 1 << 10

// A Message holds the wanted fields of a message by number.
type Message map[protowire.Number]Field

// A Field is a field to copy.
type Field struct {
	// Message holds the fields of a submessage. A field without it is copied as it is: a number, a
	// string, or an entry of a map.
	Message Message
	// Most bounds the occurrences, 1 if 0. Those after the first ones are dropped.
	Most int
	// MaxBytes bounds a field without Message, 1 KiB if 0. A longer one is dropped, or cut if Cut.
	MaxBytes int
	Cut      bool
	// Keep returns whether an occurrence is wanted, from its bytes. Others do not count for Most.
	Keep func([]byte) bool
	// Name is for a Drop, "" for a field of which nothing is reported.
	Name string
}

func (f Field) most() int { return max(f.Most, 1) }

func (f Field) maxBytes() int {
	if f.MaxBytes > 0 {
		return f.MaxBytes
	}
	return maxLeafBytes
}

// A Drop reports that a message has more occurrences of a field than are copied, or more bytes in it.
type Drop struct {
	Name string
	Had  int
	Kept int
}

// Next returns the first field of a message, with the content of one that has a length, and the bytes
// that it takes. These are negative if it is malformed, for protowire.ParseError.
func Next(message []byte) (number protowire.Number, kind protowire.Type, value []byte, n int) {
	number, kind, tag := protowire.ConsumeTag(message)
	if tag < 0 {
		return 0, 0, nil, tag
	}
	size := protowire.ConsumeFieldValue(number, kind, message[tag:])
	if size < 0 {
		return number, kind, nil, size
	}
	if value = message[tag : tag+size]; kind == protowire.BytesType {
		value, _ = protowire.ConsumeBytes(value)
	}
	return number, kind, value, tag + size
}

// Append appends the fields of data that are in the table to out, and returns what was dropped of
// those with a name. The error reports malformed bytes. It reads each byte once, and as many times
// again as the table is deep. out may be data[:0]: data is overwritten then.
func Append(out []byte, table Message, data []byte) ([]byte, []Drop, error) {
	p := pruner{out: out}
	err := p.message(table, data)
	return p.out, p.drops, err
}

type pruner struct {
	out   []byte
	drops []Drop
}

func (p *pruner) message(table Message, data []byte) error {
	had := make(map[protowire.Number]int, len(table))
	for len(data) > 0 {
		number, kind, value, n := Next(data)
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		if kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return errors.New("has a group, which no message of Kubernetes has")
		}
		data = data[n:]
		field, wanted := table[number]
		if !wanted || field.Keep != nil && !field.Keep(value) {
			continue
		}
		if had[number]++; had[number] > field.most() {
			continue
		}
		if err := p.field(field, number, kind, value); err != nil {
			return fmt.Errorf("field %d: %w", number, err)
		}
	}
	for number, n := range had {
		if f := table[number]; f.Name != "" && n > f.most() {
			p.drops = append(p.drops, Drop{f.Name, n, f.most()})
		}
	}
	return nil
}

func (p *pruner) field(f Field, number protowire.Number, kind protowire.Type, value []byte) error {
	switch {
	case f.Message != nil && kind != protowire.BytesType:
		return fmt.Errorf("has wire type %d, want a message", kind)
	case f.Message != nil:
		start := len(p.out)
		if err := p.message(f.Message, value); err != nil {
			return err
		}
		// The length is known only now: the header is put before the content.
		header := protowire.AppendTag(make([]byte, 0, 16), number, kind)
		header = protowire.AppendVarint(header, uint64(len(p.out)-start))
		p.out = slices.Insert(p.out, start, header...)
		return nil
	case len(value) > f.maxBytes() && !f.Cut:
		if f.Name != "" {
			p.drops = append(p.drops, Drop{f.Name, len(value), 0})
		}
		return nil
	}
	p.out = protowire.AppendTag(p.out, number, kind)
	if kind == protowire.BytesType {
		p.out = protowire.AppendBytes(p.out, value[:min(len(value), f.maxBytes())])
	} else {
		p.out = append(p.out, value...)
	}
	return nil
}
