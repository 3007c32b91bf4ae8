package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// A State is what a plugin is doing.
type State string

// The states of a plugin.
const (
	// Starting is from the first look at the file until the plugin serves.
	Starting State = "starting"
	Running  State = "running"
	// Backoff waits for the next start after a crash, Quarantined longer.
	Backoff     State = "backoff"
	Quarantined State = "quarantined"
	// Refused is a file that must not be run, a plugin that conflicts with another
	// one, or one that refuses the host or its configuration. It is tried again
	// when something has changed; one that refuses by itself gets another chance
	// now and then, since what it misses may be on the node.
	Refused State = "refused"
	// Disabled is by configuration, Stopped because the host ends.
	Disabled State = "disabled"
	Stopped  State = "stopped"
)

// A refusal is a reason not to run a plugin that trying again does not remove.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// errAgain ends an instance for the sake of a new one.
var errAgain = errors.New("its settings need a new process")

// A member is one plugin of the directory, whether it runs or not.
type member struct {
	supervisor *Supervisor
	name       string
	log        *lineLog
	// kick ends waiting: something has changed.
	kick chan struct{}

	// Below is guarded by the supervisor's mutex.
	cancel  context.CancelFunc
	running bool // its goroutine is
	leaving bool
	// first is set until the first attempt at the host's start was made.
	first     bool
	candidate *Instance
	// rivals are the custom plugins that were found together with this one and
	// want the same, and what exactly.
	rivals    map[string]error
	instance  *Instance
	state     State
	since     time.Time
	reason    error // for not running
	lastError error
	starts    int
	// observes is what it observed when it last served, nil if it never did.
	observes []eviction.Signal
}

func newMember(s *Supervisor, name string) *member {
	return &member{supervisor: s, name: name, log: newLineLog(s.log, name), kick: make(chan struct{}, 1), rivals: map[string]error{}}
}

// enter changes the state. The mutex is held.
func (m *member) enter(state State, why error) {
	if m.state != state || why != nil {
		m.state, m.since = state, time.Now()
	}
	m.reason = why
	if why != nil && !errors.Is(why, errAgain) {
		m.lastError = why
	}
}

// leave ends the member, its process at the end of the passes that use it. The
// mutex is held.
func (m *member) leave() {
	m.leaving = true
	if m.instance == nil {
		m.cancel()
		return
	}
	m.supervisor.condemn(m.instance, sentence{why: errAgain})
}

// run keeps the plugin running until ctx ends or the member leaves.
func (m *member) run(ctx context.Context) {
	s := m.supervisor
	defer m.gone()
	crashes := newCrashes(s.patience)
	for ctx.Err() == nil {
		mark, seen := m.log.mark(), m.changes()
		i, err := m.start(ctx)
		m.triedFirst(i)
		if err == nil {
			err = m.admit(ctx, i)
		}
		if errors.Is(err, eviction.ErrRefused) {
			err = refusal{err}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errAgain) {
			s.log.Error("plugin did not start", "plugin", m.name, "error", err, "output", m.log.since(mark, 3))
		}
		m.settled(err)
		var ran time.Duration
		hung := false
		if err == nil {
			begin := time.Now()
			hung, err = m.serve(ctx, i)
			ran = time.Since(begin)
			seen = m.changes() // It ran through all of those.
		}
		if ctx.Err() != nil || m.left() {
			return
		}
		if errors.Is(err, errAgain) {
			continue
		}
		m.rest(ctx, crashes, seen, err, ran, !hung)
	}
}

// rest waits until the plugin may be started again: for some time, or until
// something has changed that the last attempt had not seen.
func (m *member) rest(ctx context.Context, c *crashes, seen int, why error, ran time.Duration, crashed bool) {
	s := m.supervisor
	state, wait := Refused, s.patience.window
	if _, ok := errors.AsType[refusal](why); !ok {
		var quarantine bool
		wait, quarantine = c.next(time.Now(), ran, crashed)
		state = Backoff
		if quarantine {
			state = Quarantined
			s.log.Error("plugin in quarantine", "plugin", m.name, "crashes", s.patience.crashes, "for", wait.String(), "error", why)
		}
	}
	var wake <-chan time.Time
	if state != Refused || errors.Is(why, eviction.ErrRefused) {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		wake = timer.C
	}
	s.mu.Lock()
	drain(m.kick)
	if s.changes != seen {
		signal(m.kick)
	}
	m.enter(state, why)
	if state == Refused {
		delete(s.claims, m.name)
	}
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return
	case <-wake:
	case <-m.kick:
		c.forget()
	}
	s.mu.Lock()
	m.enter(Starting, nil)
	s.mu.Unlock()
}

// serve returns when the instance has ended, why, and whether it was hung.
func (m *member) serve(ctx context.Context, i *Instance) (hung bool, why error) {
	s, proc := m.supervisor, i.conn.proc
	grace := s.timeouts.Stop
	select {
	case <-ctx.Done():
	case <-i.doom:
	case <-proc.exited:
	}
	if ending := proc.ending(); ending != "" {
		why = fmt.Errorf("exited by itself (%s)", ending)
	}
	s.mu.Lock()
	m.instance = nil
	if why == nil && i.condemned != nil {
		hung, why = i.condemned.hung, i.condemned.why
	}
	m.enter(Starting, why)
	s.publish()
	s.mu.Unlock()
	s.metrics.PluginUp(m.name, false)
	if hung {
		grace = 0
	}
	m.end(i.conn, grace)
	if why == nil || errors.Is(why, errAgain) || ctx.Err() != nil {
		s.log.Info("plugin exited", "plugin", m.name, "pid", i.PID, "status", proc.ending())
	} else {
		s.log.Error("plugin exited", "plugin", m.name, "pid", i.PID, "error", why, "status", proc.ending())
	}
	return hung, why
}

// end ends a process, if there is one; one that cannot be killed is Run's result.
func (m *member) end(c *connection, grace time.Duration) {
	if c == nil {
		return
	}
	if err := c.close(grace); err != nil {
		err = fmt.Errorf("plugin %s: %w", m.name, err)
		m.supervisor.log.Error("plugin cannot be ended", "plugin", m.name, "error", err)
		m.supervisor.mu.Lock()
		m.supervisor.undead = append(m.supervisor.undead, err)
		m.supervisor.mu.Unlock()
	}
}

func (m *member) changes() int {
	m.supervisor.mu.Lock()
	defer m.supervisor.mu.Unlock()
	return m.supervisor.changes
}

func (m *member) left() bool {
	m.supervisor.mu.Lock()
	defer m.supervisor.mu.Unlock()
	return m.leaving
}

// gone is the end of run. Run looks again, since a member that left may be
// wanted again by now.
func (m *member) gone() {
	s := m.supervisor
	s.mu.Lock()
	defer s.mu.Unlock()
	m.running = false
	delete(s.claims, m.name)
	signal(s.changed) // also if it never served: nobody waits for it any more
	if m.leaving {
		m.enter(Disabled, nil)
	} else {
		m.enter(Stopped, nil)
	}
	signal(s.rescan)
}
