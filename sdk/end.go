package sdk

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// ending shuts a gRPC server down gracefully although some streams last as long as the process:
// Watch, and go-plugin's own.
type ending struct {
	begun chan struct{}
	// onFirst runs before the first call of any service.
	onFirst func()
	once    sync.Once
}

func newEnding(onFirst func()) *ending { return &ending{begun: make(chan struct{}), onFirst: onFirst} }

func (e *ending) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(e.unary), grpc.ChainStreamInterceptor(e.stream)}
}

func (e *ending) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	e.once.Do(e.onFirst)
	return handle(ctx, req)
}

func (e *ending) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	e.once.Do(e.onFirst)
	if !strings.HasSuffix(info.FullMethod, "/Watch") && !strings.HasPrefix(info.FullMethod, "/plugin.") {
		return handle(srv, stream)
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() { // until the stream ends, from either side
		select {
		case <-e.begun:
			cancel()
		case <-ctx.Done():
		}
	}()
	return handle(srv, &endingStream{ServerStream: stream, ctx: ctx})
}

type endingStream struct {
	grpc.ServerStream

	ctx context.Context //nolint:containedctx // gRPC asks a stream for its context
}

func (s *endingStream) Context() context.Context { return s.ctx }

// RecvMsg also returns when the shutdown has begun: go-plugin's broker waits in it and ignores
// the context. gRPC ends the inner call with the stream.
func (s *endingStream) RecvMsg(m any) error {
	received := make(chan error, 1)
	go func() { received <- s.ServerStream.RecvMsg(m) }()
	select {
	case err := <-received:
		return err
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// end stops server when the calls in progress have been answered, or when grace is over. It
// must be called only once.
func (e *ending) end(server *grpc.Server, grace time.Duration) {
	close(e.begun)
	late := time.AfterFunc(grace, server.Stop)
	defer late.Stop()
	server.GracefulStop()
}
