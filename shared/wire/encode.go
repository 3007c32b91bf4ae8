package wire

import "google.golang.org/protobuf/encoding/protowire"

// The rows of pods and measurements are written and read without generated
// code, straight between protobuf's format and the vocabulary: at 500 pods that
// is most of what a pass costs, and generated messages would be 15 000
// allocations. Tests hold it against the generated code in both directions.
//
// The functions below append one field. As in proto3, a zero value is not
// written.

func appendText(b []byte, n protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	s = text(s)
	return append(appendUvarint(appendTag(b, n, protowire.BytesType), uint64(len(s))), s...)
}

func appendInt(b []byte, n protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return appendUvarint(appendTag(b, n, protowire.VarintType), uint64(v))
}

// appendTag and appendUvarint are those of protowire with the common case, one
// byte, inlined.
func appendTag(b []byte, n protowire.Number, t protowire.Type) []byte {
	return appendUvarint(b, protowire.EncodeTag(n, t))
}

func appendUvarint(b []byte, v uint64) []byte {
	if v < 0x80 {
		return append(b, byte(v))
	}
	return protowire.AppendVarint(b, v)
}

func appendBool(b []byte, n protowire.Number, v bool) []byte {
	return appendInt(b, n, int64(protowire.EncodeBool(v)))
}

// beginMessage starts a nested message; what is appended until endMessage(b, at)
// is its content.
func beginMessage(b []byte, n protowire.Number) (out []byte, at int) {
	b = append(appendTag(b, n, protowire.BytesType), 0)
	return b, len(b)
}

// endMessage writes the length before the content, moving the content when the
// length needs more than the one byte kept for it.
func endMessage(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		var room [9]byte
		b = append(b, room[:more]...)
		copy(b[at+more:], b[at:at+n])
	}
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}
