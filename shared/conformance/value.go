package conformance

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/conformance/internal/check"
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

// open makes a connection of its own to the value.
func (v *value) open(ctx context.Context, s *check.Setup) (*check.Target, error) {
	cc, err := v.Dial()
	if err != nil {
		return nil, err
	}
	return check.Open(ctx, s, connection{cc}, wire.NewClient(cc), v.since)
}

// A connection is one to a value, which does not end with it.
type connection struct{ *grpc.ClientConn }

func (connection) Ended(time.Duration) string { return "" }

// Usage returns that of this process.
func (connection) Usage() check.Usage {
	var self unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &self)
	return check.Usage{Threads: runtime.NumGoroutine(), Ran: time.Duration(self.Utime.Nano() + self.Stime.Nano()), Shared: true}
}

func (connection) Printed() []string { return nil }

func (c connection) End() { _ = c.Close() }

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
