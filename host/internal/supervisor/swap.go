package supervisor

import (
	"context"
	"errors"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// A swap is an attempt at replacing a process that serves by one that is started
// beside it.
type swap struct {
	cancel context.CancelFunc
	// done is closed at its end; the next two are set by then.
	done chan struct{}
	// instance serves instead of the former one, nil if err says why not.
	instance *process
	err      error
	// again: the file or the settings have changed since it began.
	again bool
	// mark is where the plugin's output was when it began.
	mark int
}

// outgrown reports whether an instance that serves is not what file and settings
// ask for.
func (m *member) outgrown(i *process) bool {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.leaving || i.condemned != nil {
		return false
	}
	if i.file == m.file && !i.outdated(s.settings) {
		m.replacement = nil
		return false
	}
	return true
}

// trySwap begins to replace old.
func (m *member) trySwap(ctx context.Context, old *process) *swap {
	m.replacing(Starting, nil)
	ctx, cancel := context.WithCancel(ctx)
	w := &swap{cancel: cancel, done: make(chan struct{}), mark: m.log.kept.Mark()}
	m.supervisor.wg.Go(func() {
		defer close(w.done)
		defer cancel()
		w.instance, w.err = m.succeed(ctx, old)
	})
	return w
}

// succeed puts a new process into service in the place of old. On an error nothing
// is left of the new one.
func (m *member) succeed(ctx context.Context, old *process) (*process, error) {
	i, err := m.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := i.client.Probe(ctx, old.client); err != nil {
		m.end(i.conn, m.supervisor.timeouts.Stop)
		return nil, err
	}
	if err := m.admit(ctx, i); err != nil {
		return nil, err
	}
	return i, nil
}

// failed takes note of an attempt that has failed; the former process goes on.
func (m *member) failed(w *swap) {
	switch {
	case errors.Is(w.err, context.Canceled), errors.Is(w.err, errAgain):
		m.replacing("", nil)
	case errors.Is(w.err, plugindir.ErrIncomplete):
		m.replacing(Waiting, w.err)
	default:
		m.replacing(Refused, w.err)
		m.supervisor.log.Error("plugin was not replaced, the former process stays", "plugin", m.name, "error", w.err, "output", m.log.since(w.mark))
	}
}

// replacing shows how it goes; no state is that nothing is to be replaced.
func (m *member) replacing(state State, why error) {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	r := m.replacement
	switch {
	case state == "" || m.leaving:
		m.replacement = nil
		return
	case r != nil && r.State == Waiting && state == Starting:
		return // Looked at again and again until it is complete.
	case r != nil && r.State == Waiting && state == Waiting:
		r.Reason = why.Error()
		return
	case state == Waiting:
		s.log.Info("plugin is not replaced as long as somebody writes its file", "plugin", m.name, "reason", why)
	}
	m.replacement = &Replacement{State: state, Since: time.Now()}
	if why != nil {
		m.replacement.Reason = why.Error()
	}
}
