package sdk

import (
	"context"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// calls counts the calls in flight, so that an orderly end can wait for them.
type calls struct {
	// onFirst runs once, before the first call of any service.
	onFirst func()
	once    sync.Once

	mu       sync.Mutex
	inFlight int
	draining bool
	idle     chan struct{} // closed when draining and nothing is in flight
}

func newCalls(onFirst func()) *calls { return &calls{onFirst: onFirst, idle: make(chan struct{})} }

// options make a gRPC server count its calls here.
func (c *calls) options() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.ChainUnaryInterceptor(c.unary), grpc.ChainStreamInterceptor(c.stream)}
}

func (c *calls) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := c.enter(); err != nil {
		return nil, err
	}
	defer c.leave()
	return handle(ctx, req)
}

// stream does not count the streams that live as long as the process: Watch,
// and go-plugin's own.
func (c *calls) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, "/plugin.") || strings.HasSuffix(info.FullMethod, "/Watch") {
		c.once.Do(c.onFirst)
		return handle(srv, stream)
	}
	if err := c.enter(); err != nil {
		return err
	}
	defer c.leave()
	return handle(srv, stream)
}

func (c *calls) enter() error {
	c.once.Do(c.onFirst)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining {
		return status.Error(codes.Unavailable, "plugin is ending")
	}
	c.inFlight++
	return nil
}

func (c *calls) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inFlight--
	if c.draining && c.inFlight == 0 {
		close(c.idle)
	}
}

// drain refuses new calls and waits until those in flight have ended, at most
// for patience. It is called once.
func (c *calls) drain(patience time.Duration) {
	c.mu.Lock()
	c.draining = true
	if c.inFlight == 0 {
		close(c.idle)
	}
	c.mu.Unlock()

	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.idle:
	case <-timer.C:
	}
}
