package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// InProcess returns a supervisor of plugins that run in this process, by name.
// It is an error if one of them breaks the contract or refuses the host; whether
// they accept their configuration is only known to Run.
func InProcess(plugins map[string]eviction.Plugin, o Options) (*Supervisor, error) {
	inside := make(insiders, len(plugins))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		p := plugins[name]
		err := p.Validate()
		if err == nil && p.CheckHost != nil {
			err = p.CheckHost(o.Host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
		inside[name] = p
	}
	s := newSupervisor(o, inside)
	s.control.inside = true
	return s, errors.Join(errs...)
}

// insiders are plugins of this process.
type insiders map[string]eviction.Plugin

func (l insiders) look() (map[string]plugindir.File, error) {
	files := make(map[string]plugindir.File, len(l))
	for name := range l {
		files[name] = plugindir.File{Fit: true}
	}
	return files, nil
}

func (l insiders) complete(context.Context, string) (plugindir.ID, error) { return plugindir.ID{}, nil }

func (l insiders) launch(_ context.Context, s start) (running, error) {
	calls := openCalls{open: map[context.Context]bool{}}
	server := wire.NewGRPCServer([]grpc.ServerOption{grpc.UnaryInterceptor(calls.unary), grpc.StreamInterceptor(calls.stream)})
	wire.Register(server, l[s.Name])
	local := wire.ServeLocal(server)
	conn, err := local.Dial()
	if err != nil {
		local.Close()
		return nil, err
	}
	return insider{wire.NewClient(conn), conn, local}, nil
}

// An insider is a plugin of this process, called as any other.
type insider struct {
	*wire.Client

	conn  *grpc.ClientConn
	local *wire.Local
}

func (insider) pid() int { return 0 }

func (insider) exited() <-chan struct{} { return nil }

func (insider) ending() string { return "" }

func (insider) crashed() string { return "" }

func (insider) confinement() *Confinement { return nil }

func (i insider) close(time.Duration) error {
	_ = i.conn.Close()
	i.local.Close()
	return nil
}

// mostLate is how many calls of a plugin of this process may go on although their
// contexts have ended. With more of them it is left alone.
const mostLate = 3

// openCalls are those that a plugin of this process has not returned from.
type openCalls struct {
	mu   sync.Mutex
	open map[context.Context]bool
}

func (o *openCalls) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := o.begin(ctx); err != nil {
		return nil, err
	}
	defer o.end(ctx)
	return handle(ctx, req)
}

func (o *openCalls) stream(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := o.begin(s.Context()); err != nil {
		return err
	}
	defer o.end(s.Context())
	return handle(srv, s)
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
