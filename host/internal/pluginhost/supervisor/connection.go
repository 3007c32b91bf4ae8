package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// A connection is a started process and the gRPC connection to it.
type connection struct {
	*wire.Client

	proc    *launch.Process
	conn    *launch.Conn // nil until it is established
	sandbox *sandbox.Sandbox
	pinned  bool
}

// connect starts the file at path and returns once it can be called, or leaves nothing behind.
func connect(ctx context.Context, log *output.Log, s *sandbox.Sandbox, path string, mtls bool, timeout time.Duration) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c := &connection{sandbox: s}
	err := c.open(ctx, log, path, mtls)
	if err == nil {
		return c, nil
	}
	return nil, errors.Join(unready(err, timeout), c.close(0))
}

// unready names the deadline if err is that it was missed.
func unready(err error, timeout time.Duration) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not ready within %s: %w", timeout, err)
	}
	return err
}

func (c *connection) open(ctx context.Context, log *output.Log, path string, mtls bool) (err error) {
	command := c.sandbox.Command(path)
	command.Stdout, command.Stderr = log.Text, log.Line
	if mtls {
		if command.Identity, err = launch.NewIdentity(); err != nil {
			c.sandbox.Close()
			return err
		}
	}
	if c.proc, err = launch.Start(command); err != nil {
		return err
	}
	h, err := c.proc.Ready(ctx, c.sandbox.CheckDir)
	if err != nil {
		return err
	}
	if err := c.sandbox.TakeBack(); err != nil {
		return err
	}
	security := launch.LimitFrames(h.Credentials(command.Identity), c.proc.Flood)
	if c.conn, err = c.proc.Connect(ctx, h.Socket, security); err != nil {
		return err
	}
	c.Client = wire.NewClient(c.conn)
	return nil
}

// close ends the process and everything that belongs to it.
func (c *connection) close(grace time.Duration) error {
	var err error
	if c.proc != nil {
		err = c.proc.Stop(grace)
	}
	if c.conn != nil {
		c.conn.Close()
	}
	c.sandbox.RemoveDir()
	return err
}
