package conformance

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A value is a plugin that is served in this process.
type value struct {
	*wire.Local

	since time.Time
}

func serveValue(p eviction.Plugin) (*value, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := wire.NewGRPCServer([]grpc.ServerOption{grpc.UnaryInterceptor(catchUnary), grpc.StreamInterceptor(catchStream)})
	wire.Register(s, p)
	return &value{wire.ServeLocal(s), time.Now()}, nil
}

// target connects with the value anew.
func (v *value) target(ctx context.Context, r *run) (*target, error) {
	cc, err := v.Dial()
	if err != nil {
		return nil, err
	}
	s := &target{since: v.since, run: r, cc: cc, client: wire.NewClient(cc), end: func() { _ = cc.Close() }}
	if err := s.describe(ctx); err != nil {
		s.end()
		return nil, err
	}
	return s, nil
}

// A process would die of a panic. Here the call ends as if it had.
func catchUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	defer catch(&err)
	return handle(ctx, req)
}

func catchStream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	defer catch(&err)
	return handle(srv, s)
}

func catch(err *error) {
	if r := recover(); r != nil {
		*err = status.Error(codes.Unavailable, fmt.Sprintf("panic: %v", r))
	}
}
