package wire

import "google.golang.org/protobuf/encoding/protowire"

// The rows of pods and measurements are encoded and decoded without generated
// code, directly between protobuf's format and the types of package eviction: at 500
// pods this is most of the cost of a pass, and generated messages would need 15 000
// allocations. Tests compare it with the generated code in both directions.
//
// Each of the functions below appends one field. As in proto3, a zero value is omitted.

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

// appendTag and appendUvarint are protowire's, with the common case of one byte inlined.
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

// appendPair appends a nested message of two texts.
func appendPair(b []byte, n protowire.Number, first, second string) []byte {
	b, at := beginMessage(b, n)
	return endMessage(appendText(appendText(b, 1, first), 2, second), at)
}

// beginMessage starts a nested message; its content is everything appended until endMessage(b, at).
func beginMessage(b []byte, n protowire.Number) (out []byte, at int) {
	b = append(appendTag(b, n, protowire.BytesType), 0)
	return b, len(b)
}

// endMessage writes the length before the content. It moves the content if the length needs
// more than the one byte reserved for it.
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
