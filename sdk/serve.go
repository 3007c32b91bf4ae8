package sdk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/sdk/internal/stdout"
	"github.com/evictd/evictd/shared/wire"
)

// drainTime bounds the calls in flight after SIGTERM. After 2 s the host sends SIGKILL.
const drainTime = time.Second

// gcPercent lets the heap of a few MiB grow by some passes' rows before it is
// collected: at Go's own 100 a collection falls into every third pass that ranks
// 500 pods and takes a fifth of its time. An idle plugin is no larger for it, since
// the runtime collects every two minutes anyway.
const gcPercent = 200

// Serve runs p until the host ends it, and then returns. It is the last call of
// a plugin's main: if the process was not started by the host, or if p is not
// valid, it says so on standard error and exits with status 1.
//
// The process leaves at once when the host dies, ends in order on SIGTERM and
// ignores SIGINT, since a terminal sends that to the host's children too. The
// memory that it has touched is locked where it may be.
func Serve(p Plugin) {
	if os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
		_, _ = fmt.Fprintf(os.Stderr, "%s is a plugin that evictd starts: put it into evictd's plugin directory (/usr/libexec/evictd/plugins by default) instead of running it.\n",
			filepath.Base(os.Args[0]))
		os.Exit(1)
	}
	signal.Ignore(syscall.SIGINT)
	slog.SetDefault(logger)
	if err := serve(p); err != nil {
		logger.Error("plugin cannot be served", "plugin", p.Name, "error", err)
		os.Exit(1)
	}
}

func serve(p Plugin) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if err := leaveWithHost(); err != nil {
		return err
	}
	lockMemory()
	debug.SetGCPercent(gcPercent)

	// go-plugin prints the handshake to os.Stdout and then diverts both streams
	// to the host's SyncStdout, which would lose them. So it sees the real stdout
	// for a moment, and the first call, which comes after all that, restores them.
	out, log := os.Stdout, os.Stderr
	end := newEnding(func() { os.Stdout, os.Stderr = out, log })
	var server *grpc.Server
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	done := make(chan struct{})
	stopped := make(chan struct{})

	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ServerPlugins(p),
		Logger:           machineryLogger(),
		GRPCServer: func(opts []grpc.ServerOption) *grpc.Server {
			server = wire.NewGRPCServer(append(opts, end.options()...))
			go func() {
				defer close(stopped)
				select {
				case <-terminated:
					end.end(server, drainTime)
				case <-done:
				}
			}()
			os.Stdout = stdout.Handshake()
			return server
		},
	})
	if server == nil {
		return errors.New("go-plugin did not start, the reason is logged above")
	}
	close(done)
	<-stopped
	return nil
}
