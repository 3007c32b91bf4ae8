package wire

import (
	"context"
	"errors"
	"io"
	"slices"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// EncodePod encodes a pod as in requests, for callers that add fields no host sends.
func EncodePod(p *eviction.Pod, labels, annotations []string) []byte {
	return podEncoder{labels, annotations}.append(nil, p)
}

// EncodeMeasurement encodes the measurement of a candidate as in requests.
func EncodeMeasurement(m *eviction.Measurement) []byte { return appendMeasurement(nil, m) }

// DecodeMeasurements decodes a message of Measure with any number of pods.
func DecodeMeasurements(raw []byte) ([]eviction.Measurement, error) {
	m := measurements{unbounded: true}
	if err := m.decode(string(raw)); err != nil {
		return nil, err
	}
	return m.list, nil
}

// Raw is an encoded message, in either direction.
type Raw []byte

func (r *Raw) encode(b []byte) []byte { return append(b, *r...) }

func (r *Raw) decode(s string) error { //nolint:unparam // as incoming has it
	*r = Raw(s)
	return nil
}

// rawOptions allow messages larger than the protocol's limit, so that the plugin has to
// refuse them.
var rawOptions = append(slices.Clip(options), grpc.MaxCallSendMsgSize(2*MaxMessageBytes))

// CallRaw calls the named method with an arbitrary message, also one that no host may send. It
// returns gRPC's error.
func (c *Client) CallRaw(ctx context.Context, rpc string, in []byte) ([]byte, error) {
	out := new(Raw)
	err := c.cc.Invoke(ctx, fullName(rpc), (*Raw)(&in), out, rawOptions...)
	return *out, err
}

// StreamRaw is like CallRaw for a method that streams its answers; take gets each of them.
func (c *Client) StreamRaw(ctx context.Context, rpc string, in []byte, take func([]byte)) error {
	s, err := c.cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, fullName(rpc), rawOptions...)
	if err != nil {
		return err
	}
	// If the send fails, the receive below returns its error.
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
