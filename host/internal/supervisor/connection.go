package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/host/internal/dirtree"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

// A connection is a started process and the gRPC connection to it.
type connection struct {
	proc *launch.Process
	conn *launch.Conn // nil before it is made
	wire *wire.Client
	how  confinement
	log  *lineLog
	// dir is the private directory of the socket.
	dir string
}

// A launching is what to start and how.
type launching struct {
	// path is the file in the plugin directory.
	path       string
	program    *program
	how        confinement
	socketRoot string
	mtls       bool
	timeout    time.Duration
}

// connect starts the file and returns once it can be called. On an error nothing
// is left of it.
func (s *spawner) connect(ctx context.Context, log *lineLog, l launching) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	c := &connection{how: l.how, log: log}
	err := c.open(ctx, s, l)
	if err == nil {
		return c, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not ready within %s: %w", l.timeout, err)
	}
	return nil, errors.Join(err, c.close(0))
}

func (c *connection) open(ctx context.Context, s *spawner, l launching) error {
	confined := s.confined(c.log, l.how, l.program)
	command, err := c.command(l)
	if err != nil {
		confined.Close()
		return err
	}
	command.Confinement = confined
	if c.proc, err = launch.Start(command); err != nil {
		return err
	}
	h, err := c.proc.Ready(ctx, func() error { return checkSize(c.dir) })
	if err != nil {
		return err
	}
	if err := c.how.takeBack(c.dir); err != nil {
		return err
	}
	security := launch.LimitFrames(h.Credentials(command.Identity), c.proc.Flood)
	if c.conn, err = c.proc.Connect(ctx, h.Socket, security); err != nil {
		return err
	}
	c.wire = wire.NewClient(c.conn)
	return nil
}

// command makes the directory of the socket and says what is started with it.
func (c *connection) command(l launching) (command launch.Command, err error) {
	if c.dir, err = os.MkdirTemp(l.socketRoot, socketPrefix); err != nil {
		return command, err
	}
	if err := c.how.give(c.dir); err != nil {
		return command, err
	}
	command = launch.Command{
		Path: l.program.path, Args: l.program.arguments(l.path), Dir: c.dir, Stdout: c.log.text, Stderr: c.log.line,
	}
	if l.mtls {
		command.Identity, err = launch.NewIdentity()
	}
	return command, err
}

// socketPrefix is how the names of directories of sockets begin.
const socketPrefix = "plugin-dir"

// close ends the process and everything that belongs to it.
func (c *connection) close(grace time.Duration) error {
	var err error
	if c.proc != nil {
		err = c.proc.Stop(grace)
	}
	if c.conn != nil {
		c.conn.Close()
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
		c.log.log.Error("something of a plugin is left", "plugin", c.log.name, "error", err)
	}
}
