package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// A process is a plugin's process, started and called the way the host does it.
type process struct {
	eviction.Plugin
	calls  *wire.Client
	client *plugin.Client
	cmd    *exec.Cmd
	parent *os.File
}

// startPlugin starts a plugin with its sockets in dir.
func startPlugin(ctx context.Context, path, dir string) (*process, error) {
	alive, parent, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = alive.Close() }() // the child has its own
	p := &process{cmd: exec.Command(path), parent: parent}
	p.cmd.Env = []string{"PLUGIN_UNIX_SOCKET_DIR=" + dir, "EVICTD_PARENT_FD=3"}
	p.cmd.ExtraFiles = []*os.File{alive}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.client = plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig:  wire.Handshake,
		VersionedPlugins: wire.ClientPlugins(),
		AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		Cmd:              p.cmd,
		SkipHostEnv:      true,
		AutoMTLS:         true,
		Stderr:           io.Discard,
		Logger:           hclog.NewNullLogger(),
	})
	if err := p.connect(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", path, err), p.stop())
	}
	return p, nil
}

func (p *process) connect(ctx context.Context) error {
	protocol, err := p.client.Client()
	if err != nil {
		return err
	}
	dispensed, err := protocol.Dispense(wire.PluginName)
	if err != nil {
		return err
	}
	calls, ok := dispensed.(*wire.Client)
	if !ok {
		return fmt.Errorf("go-plugin dispensed %T, want *wire.Client", dispensed)
	}
	p.calls = calls
	if p.Plugin, err = calls.Describe(ctx, hostInfo); err != nil {
		return err
	}
	if p.Configurer == nil || p.Observer == nil || p.Measurer == nil || p.Ranker == nil {
		return errors.New("the plugin does not observe, measure, rank and take a configuration")
	}
	return nil
}

var hostInfo = eviction.Host{Version: "bench"}

// stop ends the process. go-plugin's Kill has no deadline of its own on a plugin
// that does not answer.
func (p *process) stop() error {
	_ = p.parent.Close() // tells the plugin to leave
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		p.client.Kill()
	})
	defer wg.Wait()
	select {
	case <-done:
		return nil
	case <-time.After(endPatience):
		if p.cmd.Process != nil {
			_ = p.cmd.Process.Kill()
		}
		return fmt.Errorf("plugin did not end within %v, killed it", endPatience)
	}
}
