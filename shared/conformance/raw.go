package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/wire"
)

// service is the name of the plugin's service.
const service = "/evictd.plugin.v1.PluginService/"

// rawCodec passes messages on as they are: *[]byte.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("raw message is a %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("raw message is a %T", v)
	}
	*b = data.Materialize()
	return nil
}

// rawOptions let messages through that are larger than the protocol's limit, so
// that the plugin is the one to refuse them.
var rawOptions = []grpc.CallOption{
	grpc.ForceCodecV2(rawCodec{}),
	grpc.MaxCallSendMsgSize(2 * wire.MaxMessageBytes),
	grpc.MaxCallRecvMsgSize(wire.MaxMessageBytes),
}

// unary calls a method with raw bytes.
func unary(ctx context.Context, cc grpc.ClientConnInterface, method string, in []byte) ([]byte, error) {
	var out []byte
	err := cc.Invoke(ctx, method, &in, &out, rawOptions...)
	return out, err
}

// stream calls a streaming method with raw bytes and gives each answer to take.
// The end of the stream is no error.
func stream(ctx context.Context, cc grpc.ClientConnInterface, method string, in []byte, take func([]byte)) error {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method, rawOptions...)
	if err != nil {
		return err
	}
	// The receive returns the error of a send that fails.
	_ = s.SendMsg(&in)
	_ = s.CloseSend()
	for {
		var out []byte
		if err := s.RecvMsg(&out); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		take(out)
	}
}

// A message is a protobuf message under construction.
type message []byte

func (m message) text(num protowire.Number, s string) message {
	return protowire.AppendString(protowire.AppendTag(m, num, protowire.BytesType), s)
}

func (m message) bytes(num protowire.Number, b []byte) message {
	return protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), b)
}

func (m message) number(num protowire.Number, v int64) message {
	return protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), uint64(v))
}

// newer adds fields as a later version of the protocol might have them.
func (m message) newer() message {
	return m.number(1000, 7).text(1001, "from the future").bytes(1002, message{}.text(1, "nested"))
}

// A field is one field of a message received.
type field struct {
	num   protowire.Number
	value uint64
	bytes []byte
}

// fields takes a message apart.
func fields(b []byte) ([]field, error) {
	var out []field
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out, protowire.ParseError(n)
		}
		b = b[n:]
		f := field{num: num}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(b)
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

// rpcError tells why a raw call has no answer, as of any call of the host, with its
// status.
func rpcError(ctx context.Context, err error) error {
	why := wire.CallError(ctx, err)
	if why == nil || ctx.Err() != nil {
		return why
	}
	return fmt.Errorf("%w (%s)", why, status.Code(err))
}
