package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
)

// start starts the plugin's process and gets it to the point where it can
// serve. On an error nothing is left of it.
func (m *member) start(ctx context.Context) (*Instance, error) {
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
	i := s.newInstance(m)
	i.policy, i.file, i.doublings = t, file, m.late
	s.mu.Unlock()
	if again {
		s.metrics.PluginRestarted(m.name)
	}
	box, err := s.spawn.Prepare(m.name, i.Generation, resolved, file, t.Policy)
	if err != nil {
		return nil, err
	}
	if i.conn, err = connect(ctx, m.log, box, path, t.mtls, i.extended(s.timeouts.Handshake)); err != nil {
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
	return m.supervisor.starts.join(builtin(m.name))
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
func (m *member) introduce(ctx context.Context, i *Instance) error {
	s := m.supervisor
	err := i.ask(ctx, "describe", s.timeouts.Describe, func(ctx context.Context) (err error) {
		i.remote, err = i.conn.wire.Describe(ctx, s.host)
		return err
	})
	if err != nil {
		return err
	}
	i.Plugin = i.guarded(i.remote)
	return m.configure(ctx, i)
}

// configure tells an instance the settings now in force.
func (m *member) configure(ctx context.Context, i *Instance) error {
	s := m.supervisor
	s.mu.Lock()
	req := eviction.ConfigureRequest{Node: s.node, Config: s.settings[m.name].Config}
	revision := s.revision
	s.mu.Unlock()
	if err := i.configure(ctx, req); err != nil {
		return err
	}
	s.mu.Lock()
	i.revision = revision
	s.mu.Unlock()
	return nil
}

// configure tells the plugin its configuration and remembers what it accepted.
func (i *Instance) configure(ctx context.Context, req eviction.ConfigureRequest) error {
	if i.remote.Configurer == nil {
		if len(req.Config) > 0 {
			return fmt.Errorf("configure: %w: it takes no configuration, want none for it", eviction.ErrRefused)
		}
		return nil
	}
	err := i.ask(ctx, "configure", i.supervisor.timeouts.Configure, func(ctx context.Context) error {
		return i.remote.Configurer.Configure(ctx, req)
	})
	if err != nil {
		return err
	}
	i.supervisor.mu.Lock()
	defer i.supervisor.mu.Unlock()
	i.told = &req
	return nil
}

// knows reports whether that is what the plugin was configured with last.
func (i *Instance) knows(req eviction.ConfigureRequest) bool {
	i.supervisor.mu.Lock()
	defer i.supervisor.mu.Unlock()
	return i.told != nil && i.told.Node == req.Node && bytes.Equal(i.told.Config, req.Config)
}

// late is a call without an answer in time.
type late struct{ text string }

func (l late) Error() string { return l.text }

func (late) Is(target error) bool { return target == context.DeadlineExceeded }

// ask makes one of the calls that decide on whether the plugin serves at all.
func (i *Instance) ask(ctx context.Context, what string, limit time.Duration, f func(context.Context) error) error {
	limit = i.extended(limit)
	own, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := f(own)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return late{fmt.Sprintf("%s: no answer within %s", what, limit)}
	case errors.Is(err, eviction.ErrUnavailable) && i.conn != nil && i.conn.proc.WaitFor(launch.Farewell):
		return fmt.Errorf("%s: the plugin crashed (%s)", what, i.conn.proc.Ending())
	}
	return fmt.Errorf("%s: %w", what, err)
}
