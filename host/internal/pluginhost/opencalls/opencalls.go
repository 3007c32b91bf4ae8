// Package opencalls bounds the calls of an in-process plugin that go on after their end.
package opencalls

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/shared/hang"
)

// Limit returns the options of a server that bounds them. A panic becomes the call's error, and is logged.
func Limit(log *slog.Logger) []grpc.ServerOption {
	calls := openCalls{log: log, open: map[context.Context]bool{}}
	return []grpc.ServerOption{grpc.UnaryInterceptor(calls.unary), grpc.StreamInterceptor(calls.stream)}
}

// mostLate bounds the calls of an in-process plugin that continue after their contexts have ended.
// Beyond that the plugin is not called.
const mostLate = 3

// openCalls tracks the unfinished calls of an in-process plugin. A panic becomes the call's error.
type openCalls struct {
	log *slog.Logger

	mu   sync.Mutex
	open map[context.Context]bool
}

func (o *openCalls) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (reply any, err error) {
	err = o.do(ctx, info.FullMethod, func() error {
		reply, err = handle(ctx, req)
		return err
	})
	return reply, err
}

func (o *openCalls) stream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return o.do(s.Context(), info.FullMethod, func() error { return handle(srv, s) })
}

func (o *openCalls) do(ctx context.Context, call string, handle func() error) (err error) {
	if err := o.begin(ctx); err != nil {
		return err
	}
	defer o.end(ctx)
	if p := hang.Catch(func() { err = handle() }); p != nil {
		o.log.Error("plugin panicked", "call", call, "panic", fmt.Sprint(p.Value), "stack", string(p.Stack))
		return status.Errorf(codes.Internal, "panic: %v", p.Value)
	}
	return err
}

func (o *openCalls) begin(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	late := 0
	for open := range o.open {
		if open.Err() != nil {
			late++
		}
	}
	if late >= mostLate {
		return status.Errorf(codes.Unavailable, "%d calls have not returned since their contexts ended", late)
	}
	o.open[ctx] = true
	return nil
}

func (o *openCalls) end(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.open, ctx)
}
