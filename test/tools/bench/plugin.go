package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

// A process is a plugin's process, started and called like by the host.
type process struct {
	eviction.Plugin
	calls *wire.Client
	proc  *launch.Process
	conn  *launch.Conn // nil until it is connected
	dir   string
}

// startPlugin starts a plugin with a new directory in dir for its socket.
func startPlugin(ctx context.Context, path, dir string) (*process, error) {
	p := &process{}
	if err := p.start(ctx, path, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), p.stop())
	}
	return p, nil
}

func (p *process) start(ctx context.Context, path, dir string) (err error) {
	if p.dir, err = os.MkdirTemp(dir, "p"); err != nil {
		return err
	}
	host, err := launch.NewIdentity()
	if err != nil {
		return err
	}
	unread := func([]byte, bool) {}
	p.proc, err = launch.Start(launch.Command{Path: path, Args: []string{path}, Dir: p.dir, Identity: host, Stdout: unread, Stderr: unread})
	if err != nil {
		return err
	}
	inTime, cancel := context.WithTimeout(ctx, eviction.HandshakeDeadline)
	defer cancel()
	h, err := p.proc.Ready(inTime, nil)
	if err != nil {
		return err
	}
	if p.conn, err = p.proc.Connect(inTime, h.Socket, launch.LimitFrames(h.Credentials(host), p.proc.Flood)); err != nil {
		return err
	}
	p.calls = wire.NewClient(p.conn)
	if p.Plugin, err = p.calls.Describe(ctx, hostInfo); err != nil {
		return err
	}
	if p.Configurer == nil || p.Observer == nil || p.Measurer == nil || p.Ranker == nil {
		return errors.New("the plugin does not observe, measure, rank and take a configuration")
	}
	return nil
}

var hostInfo = eviction.Host{Version: "bench"}

// stop asks the process to end, and returns an error if it does not.
func (p *process) stop() error {
	var err error
	if p.proc != nil {
		err = p.end()
	}
	if p.conn != nil {
		p.conn.Close()
	}
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *process) end() error {
	p.proc.Orphan() // makes the plugin exit
	if p.proc.WaitFor(endTimeout) {
		return nil
	}
	return errors.Join(fmt.Errorf("plugin did not end within %v, killed it", endTimeout), p.proc.Stop(0))
}
