package sdk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/sdk/internal/stdout"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/wire"
)

// drainTime limits the calls in progress after SIGTERM. After 2 s the host sends SIGKILL.
const drainTime = time.Second

// gcPercent lets the heap of a few MiB grow by the rows of several passes before a collection:
// with Go's default of 100, every third pass that ranks 500 pods contains a collection that
// takes a fifth of its time. An idle plugin does not become larger, since the runtime collects
// every two minutes anyway.
const gcPercent = 200

// Serve serves p until the host ends the process, and then returns. It is the last call of a
// plugin's main: if the host did not start the process, or if p is not valid, it writes an
// explanation to standard error and exits with status 1.
//
// The process exits at once when the host dies, shuts down gracefully on SIGTERM and ignores
// SIGINT, which a terminal sends to the host's children too. Serve locks the memory that the
// process has touched, if it may.
//
// If EVICTD_PLUGIN_SOCKET is set, another program has started the process, such as a pod of its
// own: it listens there, hosts come and go, and it ends on SIGTERM or SIGINT.
func Serve(p Plugin) {
	slog.SetDefault(logger)
	if path := os.Getenv(socketVariable); path != "" {
		if err := serveSocket(p, path); err != nil {
			logger.Error("plugin cannot be served", "plugin", p.Name, "socket", path, "error", err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv(wire.Handshake.MagicCookieKey) != wire.Handshake.MagicCookieValue {
		_, _ = fmt.Fprintf(os.Stderr, "%s is a plugin that evictd starts: put it into evictd's plugin directory (/usr/libexec/evictd/plugins by default) instead of running it, or set %s to a socket there.\n",
			filepath.Base(os.Args[0]), socketVariable)
		os.Exit(1)
	}
	signal.Ignore(syscall.SIGINT)
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
	_ = memlock.All() // the host says so where it is refused
	memlock.Settle(gcPercent, gcPercent)

	// go-plugin prints the handshake to os.Stdout and then redirects both streams to the host's
	// SyncStdout, which would lose their output. So it gets the real stdout for a moment, and
	// the first call, which comes after the redirection, restores both.
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
