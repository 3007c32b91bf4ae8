package wire

import (
	"strings"
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
)

// outgoing is a message that appends its encoding to b.
type outgoing interface{ encode(b []byte) []byte }

// incoming is a message that decodes itself. It may keep s.
type incoming interface{ decode(s string) error }

// codec is gRPC's protobuf codec, except for messages that encode and decode themselves.
type codec struct{ generated encoding.CodecV2 }

func newCodec() codec { return codec{generated: encoding.GetCodecV2("proto")} }

func (codec) Name() string { return "proto" }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case measurementChunk:
		return mem.BufferSlice{mem.SliceBuffer(m)}, nil
	case outgoing:
		b := buffers.Get(0)
		*b = m.encode(*b)
		return mem.BufferSlice{mem.NewBuffer(b, &buffers)}, nil
	default:
		return c.generated.Marshal(v)
	}
}

// buffers are for messages with pod rows, which have hundreds of KiB and recur in each pass
// that ranks. The transport returns them after sending.
var buffers bufferPool

type bufferPool struct{ sync.Pool }

// Get returns an empty buffer for the caller to grow.
func (p *bufferPool) Get(int) *[]byte {
	if b, ok := p.Pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	return new([]byte)
}

// Put implements mem.BufferPool.
func (p *bufferPool) Put(b *[]byte) { p.Pool.Put(b) }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(incoming)
	if !ok {
		return c.generated.Unmarshal(data, v)
	}
	// The transport reuses its buffers, so copy the message once. The decoded strings
	// share the copy.
	var s strings.Builder
	s.Grow(data.Len())
	for _, part := range data {
		s.Write(part.ReadOnlyData())
	}
	return m.decode(s.String())
}
