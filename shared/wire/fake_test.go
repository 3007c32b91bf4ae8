package wire

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evictd/evictd/shared/eviction"
)

// fake is a plugin's every capability by functions; one that is nil answers the
// zero value.
type fake struct {
	configure func(context.Context, eviction.ConfigureRequest) error
	observe   func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)
	measure   func(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error
	watch     func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error
	rank      func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error)
	reclaim   func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error)
}

func (f *fake) Configure(ctx context.Context, r eviction.ConfigureRequest) error {
	if f.configure == nil {
		return nil
	}
	return f.configure(ctx, r)
}

func (f *fake) Observe(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	if f.observe == nil {
		return eviction.ObserveReply{}, nil
	}
	return f.observe(ctx, r)
}

func (f *fake) Measure(ctx context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	if f.measure == nil {
		return nil
	}
	return f.measure(ctx, r, emit)
}

func (f *fake) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	if f.watch == nil {
		return nil
	}
	return f.watch(ctx, r, wake)
}

func (f *fake) Rank(ctx context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	if f.rank == nil {
		return nil, nil
	}
	return f.rank(ctx, r)
}

func (f *fake) Reclaim(ctx context.Context, r eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if f.reclaim == nil {
		return eviction.Reclaimed{}, nil
	}
	return f.reclaim(ctx, r, progress)
}

func (f *fake) plugin() eviction.Plugin {
	return eviction.Plugin{
		Name:       "fake",
		Signals:    []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
		Configurer: f, Observer: f, Measurer: f, Watcher: f, Ranker: f, Reclaimer: f,
	}
}

// listen returns a listener on a new unix socket.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	dir, err := os.MkdirTemp("", "wire") // t.TempDir may exceed the 107 bytes of a socket's path
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

// start runs s on a unix socket and returns a connection to it.
func start(tb testing.TB, s *grpc.Server) *grpc.ClientConn {
	tb.Helper()
	l := listen(tb)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	tb.Cleanup(func() {
		s.Stop()
		<-served
	})
	cc, err := grpc.NewClient("unix:"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cc.Close() })
	return cc
}

// connect serves p and returns the host's view of it.
func connect(tb testing.TB, p eviction.Plugin) eviction.Plugin {
	tb.Helper()
	s := NewGRPCServer(nil)
	Register(s, p)
	remote, err := NewClient(start(tb, s)).Describe(within(tb, 5*time.Second), eviction.Host{})
	if err != nil {
		tb.Fatalf("describe: %v", err)
	}
	return remote
}

// within returns a context with a deadline, as all calls to plugins have.
func within(tb testing.TB, d time.Duration) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), d)
	tb.Cleanup(cancel)
	return ctx
}

// remoteOn returns calls that no Describe has announced.
func remoteOn(cc *grpc.ClientConn) *remote {
	return &remote{Client: NewClient(cc)}
}
