package sdk

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc"
)

// deaf is a stream from which nothing ever comes.
type deaf struct{ grpc.ServerStream }

func (deaf) Context() context.Context { return context.Background() }
func (deaf) RecvMsg(any) error        { select {} }

// A plugin took the whole second that calls in flight may have, since go-plugin's
// broker was still reading.
func TestTheEndDoesNotWaitForStreamsThatOnlyListen(t *testing.T) {
	e := newEnding(func() {})
	close(e.begun)
	err := e.stream(nil, deaf{}, &grpc.StreamServerInfo{FullMethod: "/plugin.GRPCBroker/StartStream"}, func(_ any, s grpc.ServerStream) error {
		return s.RecvMsg(nil)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the broker's stream ended with %v, want %v", err, context.Canceled)
	}
}
