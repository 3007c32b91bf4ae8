package sdk

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/wire"
)

// socketVariable is the path of the socket to listen on, .../NAME.sock in evictd's plugin directory, in a process
// that evictd does not start.
const socketVariable = "EVICTD_PLUGIN_SOCKET"

// serveSocket serves p on the socket at path until SIGTERM or SIGINT.
func serveSocket(p Plugin, path string) error {
	if err := p.Validate(); err != nil {
		return err
	}
	if !filepath.IsAbs(path) || filepath.Ext(path) != ".sock" {
		return fmt.Errorf("%s is %q, want an absolute path that ends in .sock", socketVariable, path)
	}
	over := make(chan os.Signal, 1)
	signal.Notify(over, syscall.SIGTERM, syscall.SIGINT)
	_ = memlock.All() // where its limits allow it
	memlock.Settle(gcPercent, gcPercent)

	listener, mine, err := listen(path)
	if err != nil {
		return err
	}
	end := newEnding(func() {})
	server := wire.NewGRPCServer(end.options())
	wire.Register(server, p)
	status := health.NewServer()
	status.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, status)
	logger.Info("plugin listens", "plugin", p.Name, "version", p.Version, "socket", path)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-over
		// Another process may have replaced it. A host that sees no file expects no plugin.
		if now, err := os.Lstat(path); err == nil && os.SameFile(now, mine) {
			_ = os.Remove(path)
		}
		end.end(server, drainTime)
	}()
	err = server.Serve(listener)
	if err == nil {
		<-stopped
	}
	return err
}

// listen listens on a socket at path, which only the caller's user may call. It replaces what a former process has
// left there at the moment when it can be called.
func listen(path string) (net.Listener, os.FileInfo, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	aside := filepath.Join(dir, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: aside, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	listener.SetUnlinkOnClose(false)
	var info os.FileInfo
	if err = os.Chmod(aside, 0o600); err == nil {
		info, err = os.Lstat(aside)
	}
	if err == nil {
		err = os.Rename(aside, path)
	}
	if err != nil {
		_ = listener.Close()
	}
	return listener, info, err
}
