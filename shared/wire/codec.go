package wire

import (
	"strings"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
)

// outgoing is a message that writes itself.
type outgoing interface{ encode() []byte }

// incoming is a message that reads itself. It may keep s.
type incoming interface{ decode(s string) error }

// codec is gRPC's protobuf codec, except for messages that write and read
// themselves.
type codec struct{ generated encoding.CodecV2 }

func newCodec() codec { return codec{generated: encoding.GetCodecV2("proto")} }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(outgoing); ok {
		return mem.BufferSlice{mem.SliceBuffer(m.encode())}, nil
	}
	return c.generated.Marshal(v)
}

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(incoming)
	if !ok {
		return c.generated.Unmarshal(data, v)
	}
	// The transport reuses its buffers, so this copy is the one that strings are
	// cut from.
	var s strings.Builder
	s.Grow(data.Len())
	for _, part := range data {
		s.Write(part.ReadOnlyData())
	}
	return m.decode(s.String())
}
