package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// A swap is an attempt at replacing a process that serves by one that is started
// beside it.
type swap struct {
	cancel context.CancelFunc
	// done is closed at its end; the next two are set by then.
	done chan struct{}
	// instance serves instead of the former one, nil if err says why not.
	instance *Instance
	err      error
	// again: the file or the settings have changed since it began.
	again bool
	// mark is where the plugin's output was when it began.
	mark int
}

// outgrown reports whether an instance that serves is not what file and settings
// ask for.
func (m *member) outgrown(i *Instance) bool {
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
func (m *member) trySwap(ctx context.Context, old *Instance) *swap {
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
func (m *member) succeed(ctx context.Context, old *Instance) (*Instance, error) {
	i, err := m.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.probe(ctx, i, old); err != nil {
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

// probeTries is how often a new process is asked: with the summary as the source, a
// pass may end while it answers.
const probeTries = 3

// probe lets a new process observe once what it would observe. What it does not
// know must not be known to the one that serves.
func (m *member) probe(ctx context.Context, i, old *Instance) error {
	signals := observed(i.Plugin)
	if len(signals) == 0 {
		return nil
	}
	reply, err := m.ask(ctx, i, signals)
	if err != nil {
		return err
	}
	reply, err = checkObservations(signals, i.remote.OwnsLayout, i.relays(), reply)
	if err != nil {
		return fmt.Errorf("observe: %w: %w", eviction.ErrInvalidReply, err)
	}
	missing := unknown(signals, reply)
	missing = slices.DeleteFunc(missing, func(o eviction.Observation) bool { return !old.Plugin.For(o.Signal).Has(eviction.CanObserve) })
	if len(missing) == 0 {
		return nil
	}
	asked := make([]eviction.Signal, len(missing))
	for n, o := range missing {
		asked[n] = o.Signal
	}
	known, err := m.ask(ctx, old, asked)
	if err != nil {
		return ctx.Err() // The former one is worse.
	}
	var errs []error
	for _, o := range missing {
		if !slices.ContainsFunc(unknown(asked, known), func(u eviction.Observation) bool { return u.Signal == o.Signal }) {
			errs = append(errs, fmt.Errorf("observe: does not know %s, which the former process does: %s", o.Signal, o.Err))
		}
	}
	return errors.Join(errs...)
}

// ask asks an instance for signals as in the latest pass.
func (m *member) ask(ctx context.Context, i *Instance, signals []eviction.Signal) (reply eviction.ObserveReply, err error) {
	s := m.supervisor
	for range probeTries {
		at := s.lastAsked()
		err = i.ask(ctx, "observe", s.timeouts.Observe, func(ctx context.Context) (err error) {
			reply, err = i.remote.Observer.Observe(ctx, eviction.ObserveRequest{PassView: at, Signals: signals})
			return err
		})
		if err == nil && len(unknown(signals, reply)) == 0 || ctx.Err() != nil || s.lastAsked() == at {
			break
		}
	}
	return reply, err
}

// unknown returns the signals that a reply has no figure for.
func unknown(signals []eviction.Signal, reply eviction.ObserveReply) []eviction.Observation {
	var none []eviction.Observation
	for _, s := range signals {
		n := slices.IndexFunc(reply.Observations, func(o eviction.Observation) bool { return o.Signal == s })
		switch {
		case n < 0:
			none = append(none, eviction.Observation{Signal: s, Err: "left out of the reply"})
		case reply.Observations[n].State == eviction.Unknown:
			none = append(none, reply.Observations[n])
		}
	}
	return none
}

// lastAsked is what plugins were last asked for, the view before reclaim of no pass
// if nothing yet.
func (s *Supervisor) lastAsked() eviction.PassView {
	if a := s.asked.Load(); a != nil {
		return *a
	}
	return eviction.PassView{View: eviction.ViewBefore}
}
