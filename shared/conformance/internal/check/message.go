package check

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// A Message is a protobuf message under construction.
type Message []byte

// Text adds a string field.
func (m Message) Text(num protowire.Number, s string) Message { return m.Bytes(num, []byte(s)) }

// Bytes adds a bytes field or a nested message.
func (m Message) Bytes(num protowire.Number, b []byte) Message {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), b)
}

// Number adds a varint field.
func (m Message) Number(num protowire.Number, v int64) Message {
	return protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), uint64(v))
}

// Newer adds unknown fields, as a later version of the protocol might have them.
func (m Message) Newer() Message {
	return m.Number(1000, 7).Text(1001, "from the future").Bytes(1002, Message{}.Text(1, "nested"))
}

// A Field is one field of a message received.
type Field struct {
	Num   protowire.Number
	Value uint64
	Bytes []byte
}

// Fields decodes a message into its fields.
func Fields(b []byte) ([]Field, error) {
	var out []Field
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out, protowire.ParseError(n)
		}
		b = b[n:]
		f := Field{Num: num}
		switch kind {
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, b)
		}
		if n < 0 {
			return out, protowire.ParseError(n)
		}
		b = b[n:]
		out = append(out, f)
	}
	return out, nil
}
