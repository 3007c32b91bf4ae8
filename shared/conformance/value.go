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

// serveValue serves a plugin in this process.
func serveValue(p eviction.Plugin) (*wire.Local, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	s := wire.NewGRPCServer([]grpc.ServerOption{grpc.UnaryInterceptor(catchUnary), grpc.StreamInterceptor(catchStream)})
	wire.Register(s, p)
	return wire.ServeLocal(s), nil
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
