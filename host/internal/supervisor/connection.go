package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/host/internal/dirtree"
	"github.com/evictd/evictd/shared/wire"
)

// A connection is a started process and the gRPC connection to it.
type connection struct {
	proc   *process
	client *plugin.Client
	wire   *wire.Client
	// dir is the private directory of the socket.
	dir string

	mu    sync.Mutex
	conns []*grpc.ClientConn
}

// A launch is what to start and how.
type launch struct {
	name string
	// path is the file in the plugin directory.
	path       string
	socketRoot string
	mtls       bool
	timeout    time.Duration
}

// connect starts the file and returns once it can be called. On an error nothing
// is left of it.
func connect(ctx context.Context, proc *process, l launch) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	c := newConnection(ctx, proc, l)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = c.dial()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		// Killing the process ends whatever go-plugin waits for.
		stopped := proc.stop(0)
		<-done
		err = errors.Join(ctx.Err(), stopped)
	}
	if err == nil {
		return c, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not ready within %s: %w", l.timeout, err)
	}
	return nil, errors.Join(err, c.close(0))
}

// newConnection sets go-plugin up for one start; nothing of it can be used
// twice.
func newConnection(ctx context.Context, proc *process, l launch) *connection {
	c := &connection{proc: proc}
	stdout, stderr := proc.printed(), proc.printed()
	config := &plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ClientPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS:         l.mtls,
		SkipHostEnv:      true,
		UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: l.socketRoot},
		StartTimeout:     l.timeout,
		Logger:           hclog.NewNullLogger(),
		// What the plugin's code prints after the handshake comes through gRPC.
		SyncStdout: stdout, SyncStderr: stderr,
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			c.dir = dir
			if err := proc.how.give(dir); err != nil {
				return nil, err
			}
			cmd.Path, cmd.Args, cmd.Err = proc.program.path, proc.program.arguments(l.path), nil
			return &handshake{proc: proc, cmd: cmd, name: l.name, dir: filepath.Clean(dir), mtls: l.mtls, given: ctx.Done()}, nil
		},
	}
	config.GRPCDialOptions = append(wire.DialOptions(), grpc.WithStreamInterceptor(c.remember),
		grpc.WithTransportCredentials(newCounted(config, proc.floods)))
	c.client = plugin.NewClient(config)
	return c
}

func (c *connection) dial() error {
	if _, err := c.client.Start(); err != nil {
		return err
	}
	protocol, err := c.client.Client()
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	raw, err := protocol.Dispense(wire.PluginName)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	c.wire = raw.(*wire.Client)
	return nil
}

// remember keeps go-plugin's connections: when it gives up on one while it sets
// it up, it drops it without closing it. It opens streams on each one first of
// all.
func (c *connection) remember(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	c.mu.Lock()
	if len(c.conns) == 0 || c.conns[len(c.conns)-1] != cc {
		c.conns = append(c.conns, cc)
	}
	c.mu.Unlock()
	return streamer(ctx, desc, cc, method, opts...)
}

// socketPrefix is what go-plugin calls directories of sockets.
const socketPrefix = "plugin-dir"

// close ends the process and everything that belongs to it.
func (c *connection) close(grace time.Duration) error {
	err := c.proc.stop(grace)
	// With the process gone Kill waits for nothing; before, it might for ever.
	c.client.Kill()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cc := range c.conns {
		_ = cc.Close()
	}
	c.removeDir()
	return err
}

// removeTimeout is how long the end of a plugin waits for what it has left in its
// directory.
const removeTimeout = 2 * time.Second

// removeDir removes the socket's directory. What is left of it is removed by the
// next host.
func (c *connection) removeDir() {
	if c.dir == "" {
		return
	}
	end := time.Now().Add(removeTimeout)
	if err := dirtree.Remove(filepath.Dir(c.dir), filepath.Base(c.dir), func() bool { return time.Now().Before(end) }); err != nil {
		c.proc.log.log.Error("something of a plugin is left", "plugin", c.proc.log.name, "error", err)
	}
}
