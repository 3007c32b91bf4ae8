package supervisor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// start starts the plugin's process and gets it to the point where it can
// serve. On an error nothing is left of it.
func (m *member) start(ctx context.Context) (*process, error) {
	s := m.supervisor
	path := filepath.Join(s.dir, m.name)
	file, err := plugindir.Complete(ctx, path)
	slot := m.startSlot()
	defer slot.release()
	if err != nil {
		return nil, err
	}
	if err := slot.wait(ctx); err != nil {
		return nil, err
	}
	resolved, err := plugindir.Executable(path)
	if err != nil {
		return nil, plugindir.Refusal{Err: unfit{err}}
	}
	s.mu.Lock()
	again := false
	if m.instance == nil { // else it is to replace that one
		m.starts++
		again = m.starts > 1
	}
	t := startPolicyFor(s.settings, m.name)
	i := s.newProcess(m)
	i.policy, i.file = t, file
	s.mu.Unlock()
	if again {
		s.metrics.PluginRestarted(m.name)
	}
	box, err := s.spawn.Prepare(m.name, i.Generation, resolved, file, t.Policy)
	if err != nil {
		return nil, err
	}
	if i.conn, err = connect(ctx, m.log, box, path, t.mtls, s.timeouts.Handshake<<i.client.Doublings); err != nil {
		return nil, kindOf(err)
	}
	i.PID = i.conn.proc.PID()
	if err = m.introduce(ctx, i); err == nil {
		return i, nil
	}
	grace := time.Duration(0)
	if errors.Is(err, eviction.ErrRefused) {
		grace = s.timeouts.Stop
	}
	m.end(i.conn, grace)
	return nil, err
}

// startSlot returns the member's place in the queue of starts, which is to be
// released: the one that it was begun with, then a new one each time.
func (m *member) startSlot() *startSlot {
	if slot := m.firstSlot; slot != nil {
		m.firstSlot = nil
		return slot
	}
	return m.supervisor.starts.join(registry.Builtin(m.name))
}

// kindOf says what an error of a start means for the next one: where the file itself
// is wrong it would end alike.
func kindOf(err error) error {
	switch {
	case errors.Is(err, launch.ErrNotProgram):
		return plugindir.Refusal{Err: err}
	case errors.Is(err, launch.ErrBusy):
		return fmt.Errorf("%w: %w", plugindir.ErrIncomplete, err)
	}
	return err
}

// introduce asks the plugin what it is and configures it.
func (m *member) introduce(ctx context.Context, i *process) error {
	err := i.client.Describe(ctx, func(ctx context.Context) (eviction.Plugin, error) {
		return i.conn.wire.Describe(ctx, m.supervisor.host)
	})
	if err != nil {
		return err
	}
	i.Plugin = i.client.Plugin()
	return m.configure(ctx, i)
}

// configure tells an instance the settings now in force.
func (m *member) configure(ctx context.Context, i *process) error {
	s := m.supervisor
	s.mu.Lock()
	req := eviction.ConfigureRequest{Node: s.node, Config: s.settings[m.name].Config}
	revision := s.revision
	s.mu.Unlock()
	if err := i.client.Configure(ctx, req); err != nil {
		return err
	}
	s.mu.Lock()
	i.revision = revision
	s.mu.Unlock()
	return nil
}
