package wire

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// EncodePod is a pod as in requests, for those who add to it what no host sends.
func EncodePod(p *eviction.Pod, labels, annotations []string) []byte {
	return podEncoder{labels, annotations}.append(nil, p)
}

// EncodeMeasurement is the measurement of a candidate as in requests.
func EncodeMeasurement(m *eviction.Measurement) []byte { return appendMeasurement(nil, m) }

// DecodeMeasurements reads an answer to Measure that may be of any number of pods.
func DecodeMeasurements(raw []byte) ([]eviction.Measurement, error) {
	m := measurements{atMost: math.MaxInt, unbounded: true}
	if err := m.decode(string(raw)); err != nil {
		return nil, err
	}
	return m.list, nil
}

// A Raw is a message as the bytes that it has on the wire, on either side.
type Raw []byte

func (r *Raw) encode(b []byte) []byte { return append(b, *r...) }

func (r *Raw) decode(s string) error { //nolint:unparam // as incoming has it
	*r = Raw(s)
	return nil
}

// rawOptions let messages through that are larger than the protocol's limit, so that the
// plugin is the one to refuse them.
var rawOptions = append(slices.Clip(options), grpc.MaxCallSendMsgSize(2*MaxMessageBytes))

// CallRaw makes the call of that name with a message that no host may send. The error is
// gRPC's.
func (c *Client) CallRaw(ctx context.Context, rpc string, in []byte) ([]byte, error) {
	out := new(Raw)
	err := c.cc.Invoke(ctx, fullName(rpc), (*Raw)(&in), out, rawOptions...)
	return *out, err
}

// StreamRaw is CallRaw of a call that streams its answers, each of which take gets.
func (c *Client) StreamRaw(ctx context.Context, rpc string, in []byte, take func([]byte)) error {
	s, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fullName(rpc), rawOptions...)
	if err != nil {
		return err
	}
	// The receive returns the error of a send that fails.
	_ = s.SendMsg((*Raw)(&in))
	_ = s.CloseSend()
	for {
		out := new(Raw)
		if err := s.RecvMsg(out); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		take(*out)
	}
}

func fullName(rpc string) string {
	return "/" + pluginv1.PluginService_ServiceDesc.ServiceName + "/" + rpc
}
