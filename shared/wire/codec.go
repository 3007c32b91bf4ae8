package wire

import (
	"strings"
	"sync"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec of all other messages
	"google.golang.org/grpc/mem"
)

// outgoing is a message that writes itself at the end of b.
type outgoing interface{ encode(b []byte) []byte }

// incoming is a message that reads itself. It may keep s.
type incoming interface{ decode(s string) error }

// codec is gRPC's protobuf codec, except for messages that write and read
// themselves.
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

// buffers are for messages with rows, which have hundreds of KiB and come again
// in each pass that ranks. The transport gives them back when they are sent.
var buffers bufferPool

type bufferPool struct{ sync.Pool }

// Get returns an empty buffer, which its user grows.
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
	// The transport reuses its buffers, so this copy is the one that strings are
	// cut from.
	var s strings.Builder
	s.Grow(data.Len())
	for _, part := range data {
		s.Write(part.ReadOnlyData())
	}
	return m.decode(s.String())
}
