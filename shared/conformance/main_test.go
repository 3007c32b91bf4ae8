package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// faultVariable makes this test binary a plugin with the fault of that name, "none"
// for a sound one.
const faultVariable = "CONFORMANCE_FAULT"

func TestMain(m *testing.M) {
	if fault := os.Getenv(faultVariable); fault != "" {
		beAPlugin(fault)
		return
	}
	code := m.Run()
	_ = os.RemoveAll(buildDir)
	os.Exit(code)
}

func beAPlugin(fault string) {
	if early := beforeHandshake[fault]; early != nil {
		early()
	}
	socket := os.Getenv("EVICTD_PLUGIN_SOCKET")
	if socket == "" && os.Getenv(wire.Handshake.MagicCookieKey) == "" {
		if fault != "silent-by-hand" {
			fmt.Fprintln(os.Stderr, "evictd starts this")
		}
		os.Exit(1)
	}
	leaveWithHost(fault)
	s := newSound()
	spoil(s, fault)
	p := s.plugin()
	if fault == "crashes-in-describe" {
		p.CheckHost = func(eviction.Host) error { panic("I do not talk to strangers") }
	}
	plugins := wire.ServerPlugins(p)
	if fault == "major-9" {
		plugins = map[int]plugin.PluginSet{9: plugins[wire.ProtocolMajor]}
	}
	if socket != "" || fault == "no-client-check" || fault == "no-health" {
		serveByItself(plugins, cmp.Or(socket, os.Getenv(plugin.EnvUnixSocketDir)+"/s"))
		return
	}
	plugin.Serve(&plugin.ServeConfig{HandshakeConfig: wire.Handshake, VersionedPlugins: plugins, GRPCServer: wire.NewGRPCServer})
}

// serveByItself serves without TLS and health, in a handshake without go-plugin.
func serveByItself(plugins map[int]plugin.PluginSet, socket string) {
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		panic(err)
	}
	server := wire.NewGRPCServer(nil)
	if os.Getenv(faultVariable) != "no-health" {
		status := health.NewServer()
		status.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
		grpc_health_v1.RegisterHealthServer(server, status)
	}
	if err := plugins[wire.ProtocolMajor][wire.PluginName].(plugin.GRPCPlugin).GRPCServer(nil, server); err != nil {
		panic(err)
	}
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "plugin.GRPCController", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{{
		MethodName: "Shutdown", Handler: func(any, context.Context, func(any) error, grpc.UnaryServerInterceptor) (any, error) {
			os.Exit(0)
			return nil, nil
		},
	}}}, nil)
	fmt.Printf("1|1|unix|%s|grpc|\n", listener.Addr())
	_ = server.Serve(listener)
}

// leaveWithHost ends the process on SIGTERM and with the host, as a plugin should,
// unless not to do so is the fault.
func leaveWithHost(fault string) {
	signal.Ignore(syscall.SIGINT)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() {
		<-terminated
		if fault == "fails-at-sigterm" {
			os.Exit(3)
		}
		os.Exit(0)
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.NewFile(3, "host"))
		if fault != "ignores-host" && os.Getenv("EVICTD_PARENT_FD") != "" {
			os.Exit(0)
		}
	}()
}

// beforeHandshake are faults that come before anything is served.
var beforeHandshake = map[string]func(){
	"exits":     func() { fmt.Fprintln(os.Stderr, "no reason to live"); os.Exit(3) },
	"hello":     func() { fmt.Println("hello, I am a plugin") },
	"net-rpc":   func() { shakeHands("1|1|unix|%s/s|netrpc|") },
	"other-dir": func() { shakeHands("1|1|unix|/tmp/conformance/s|grpc|") },
	"tcp":       func() { shakeHands("1|1|tcp|127.0.0.1:1|grpc|") },
	"runs-by-hand": func() {
		if os.Getenv(wire.Handshake.MagicCookieKey) == "" {
			fmt.Println("1|1|unix|/tmp/conformance/s|grpc|")
			os.Exit(1)
		}
	},
	"stays-by-hand": func() {
		if os.Getenv(wire.Handshake.MagicCookieKey) == "" {
			fmt.Fprintln(os.Stderr, "waiting for better times")
			<-time.After(time.Minute)
		}
	},
	"bad-identity": func() { shakeHands("1|1|unix|%s/s|grpc|QUFB") },
}

// shakeHands prints a handshake with a socket that nobody serves.
func shakeHands(line string) {
	if os.Getenv(wire.Handshake.MagicCookieKey) == "" {
		return
	}
	dir := os.Getenv(plugin.EnvUnixSocketDir)
	if _, err := net.Listen("unix", dir+"/s"); err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(line, "%s", dir))
	<-time.After(time.Minute)
}

// leaked holds files and memory that are never given back.
var leaked struct {
	mu     sync.Mutex
	files  []*os.File
	memory [][]byte
}

// spoil makes the calls of a plugin do things that only a process can do.
func spoil(s *sound, fault string) {
	s.rank = func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
		leaked.mu.Lock()
		defer leaked.mu.Unlock()
		switch fault {
		case "leaks-descriptors":
			if f, err := os.Open("/dev/null"); err == nil {
				leaked.files = append(leaked.files, f)
			}
		case "leaks-memory":
			b := make([]byte, 4<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			if len(leaked.memory) < 50 {
				leaked.memory = append(leaked.memory, b)
			}
		case "crashes-with-many":
			if len(req.Candidates) == 500 {
				_, _ = syscall.Write(2, []byte("too many pods for me\n")) // os.Stderr is go-plugin's
				os.Exit(7)
			}
		}
		return soundRank(ctx, req)
	}
	if fault == "crashes-when-configured" {
		s.configure = func(context.Context, eviction.ConfigureRequest) error {
			var nothing *sound
			return errors.New(nothing.config)
		}
	}
}
