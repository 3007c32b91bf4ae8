package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/schema"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// serveWrong serves a correct plugin with one fault that no single answer shows, for `evictd
// plugins verify` to find.
func serveWrong(variant string) {
	p := newRight()
	for _, list := range wrongs {
		if spoil := list[variant]; spoil != nil {
			spoil(&p)
			sdk.Serve(p)
			return
		}
	}
	panic("nobody knows what is wrong: " + variant)
}

// serveAlone serves without the SDK, which prevents such faults, and then exits.
func serveAlone(p *eviction.Plugin, more ...grpc.ServerOption) {
	signal.Ignore(syscall.SIGINT)
	leaveWithHost()
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: wire.Handshake, VersionedPlugins: wire.ServerPlugins(*p),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server { return wire.NewGRPCServer(append(opts, more...)) },
	})
	os.Exit(0)
}

// oneConnection exits at the end of the first connection.
type oneConnection struct{}

func (oneConnection) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (oneConnection) HandleRPC(context.Context, stats.RPCStats)                         {}
func (oneConnection) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (oneConnection) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, over := s.(*stats.ConnEnd); over {
		os.Exit(0)
	}
}

// wrongStarts are the faults of a process.
var wrongStarts = map[string]func(*eviction.Plugin){
	"nothing": func(*eviction.Plugin) {},
	"serves one connection and ends": func(p *eviction.Plugin) {
		terminated := make(chan os.Signal, 1)
		signal.Notify(terminated, syscall.SIGTERM)
		go func() {
			<-terminated
			os.Exit(0)
		}()
		serveAlone(p, grpc.StatsHandler(oneConnection{}))
	},
	"ignores SIGTERM": func(p *eviction.Plugin) {
		signal.Ignore(syscall.SIGTERM)
		serveAlone(p)
	},
	"needs to be root": func(*eviction.Plugin) {
		if _, err := os.ReadFile("/etc/shadow"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	},
	"needs much memory": func(*eviction.Plugin) { kept.add(200 << 20) },
	"leaves a child in a session of its own": func(*eviction.Plugin) {
		if os.Getenv(wire.Handshake.MagicCookieKey) == "" {
			return
		}
		child := exec.Command("/bin/sleep", "600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			panic(err)
		}
	},
	"opens a port": func(*eviction.Plugin) {
		if _, err := net.Listen("tcp", "127.0.0.1:0"); err != nil {
			panic(err)
		}
	},
}

// kept holds memory that is never released.
var kept keeper

type keeper struct {
	mu     sync.Mutex
	memory [][]byte
}

func (k *keeper) add(n int) {
	b := make([]byte, n)
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.memory = append(k.memory, b)
}

// wrongs are all variants of fault.Wrong.
var wrongs = []map[string]func(*eviction.Plugin){wrongStarts, wrongFigures, wrongRankings, {
	"floods with wakes": func(p *eviction.Plugin) {
		p.Watcher = watcher(func(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) {
			for ctx.Err() == nil && len(req.Thresholds) > 0 {
				wake(eviction.Wake{Signal: req.Thresholds[0].Signal, Cause: "flood"})
				time.Sleep(10 * time.Millisecond)
			}
			<-ctx.Done()
		})
	},
	"never wakes": func(p *eviction.Plugin) {
		p.Watcher = watcher(func(ctx context.Context, _ eviction.WatchRequest, _ func(eviction.Wake)) { <-ctx.Done() })
	},
	"takes over what is right in a refused config": func(p *eviction.Plugin) {
		r := p.Configurer.(*right)
		p.Configurer = configurer(func(ctx context.Context, req eviction.ConfigureRequest) error {
			c := &rightConfig{}
			if json.Unmarshal(req.Config, c) == nil {
				r.config.Store(c)
			}
			return r.Configure(ctx, req)
		})
	},
	"accepts unknown fields": func(p *eviction.Plugin) {
		p.Configurer = configurer(func(_ context.Context, req eviction.ConfigureRequest) error {
			if len(req.Config) == 0 {
				return nil
			}
			return json.Unmarshal(req.Config, &rightConfig{})
		})
	},
	"a schema that does not compile":   bySchema(`{"properties": {"reverse": {"type": "bool"}}}`),
	"a schema with a remote reference": bySchema(`{"$ref": "https://faults.example/schema.json"}`),
	"a schema that takes forever": func(p *eviction.Plugin) {
		costly := []byte(`{"$ref": "#/$defs/0", "$defs": {`)
		for i := range 50 {
			costly = fmt.Appendf(costly, `"%d": {"allOf": [{"$ref": "#/$defs/%d"}, {"$ref": "#/$defs/%d"}]}, `, i, i+1, i+1)
		}
		bySchema(string(costly) + `"50": {}}}`)(p)
	},
	"a schema that refuses a good configuration": bySchema(`{"properties": {"reverse": {"const": true}}}`),
	"another description once it is configured": func(p *eviction.Plugin) {
		signals := p.Signals
		r := p.Configurer.(*right)
		p.Configurer = configurer(func(ctx context.Context, req eviction.ConfigureRequest) error {
			signals[2].ReclaimSteps[0].Name = "faults.example/other"
			return r.Configure(ctx, req)
		})
	},
	"another description in each process": func(p *eviction.Plugin) { p.Version = fmt.Sprint(os.Getpid()) },
	"claims to have freed what it did not": func(p *eviction.Plugin) {
		next := p.Reclaimer
		p.Reclaimer = reclaimer(func(ctx context.Context, req eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			_, err := next.Reclaim(ctx, req, func(eviction.Reclaimed) {})
			return eviction.Reclaimed{Bytes: 1 << 30}, err
		})
	},
	"reclaims once": func(p *eviction.Plugin) {
		next := p.Reclaimer
		var calls atomic.Int64
		p.Reclaimer = reclaimer(func(ctx context.Context, req eviction.ReclaimRequest) (eviction.Reclaimed, error) {
			released, err := next.Reclaim(ctx, req, func(eviction.Reclaimed) {})
			if err == nil && calls.Add(1) > 1 {
				panic("the directory is gone")
			}
			return released, err
		})
	},
	"prints on standard output": func(p *eviction.Plugin) {
		out := handshake
		observing(p, func(*eviction.Observation) { fmt.Fprintln(out, "observing") })
	},
}}

// bySchema makes a plugin check its configuration by a schema first.
func bySchema(document string) func(*eviction.Plugin) {
	return func(p *eviction.Plugin) { p.Configurer = schema.Configurer([]byte(document), p.Configurer) }
}
