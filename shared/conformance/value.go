package conformance

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/conformance/internal/lifecycle"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// value is a plugin that is served in this process.
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

// open makes a new connection to the value.
func (v *value) open(ctx context.Context, s *check.Setup) (*check.Target, error) {
	cc, err := v.Dial()
	if err != nil {
		return nil, err
	}
	return check.Open(ctx, s, connection{cc}, wire.NewClient(cc), v.since)
}

// A connection is a connection to a value. Closing it does not end the value.
type connection struct{ *grpc.ClientConn }

func (connection) Ended(time.Duration) string { return "" }

func (connection) Usage() check.Usage { return lifecycle.OwnUsage() }

func (connection) Printed() []string { return nil }

func (c connection) End() { _ = c.Close() }

// catchUnary fails a call that panics; a plugin's own process would die instead.
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
