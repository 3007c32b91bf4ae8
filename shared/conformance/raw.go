package conformance

import (
	"context"
	"fmt"

	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/evictd/evictd/shared/wire"
)

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
