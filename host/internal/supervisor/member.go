package supervisor

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A State is what a plugin is doing.
type State string

// The states of a plugin.
const (
	// Starting is from the first look at the file until the plugin serves.
	Starting State = "starting"
	// Waiting is for a file that somebody still writes.
	Waiting State = "waiting"
	Running State = "running"
	// Backoff waits for the next start after a crash, Quarantined longer.
	Backoff     State = "backoff"
	Quarantined State = "quarantined"
	// Refused is a file that must not be run, a plugin that conflicts with another
	// one, or one that refuses the host or its configuration. It is tried again
	// when something has changed; one that refuses by itself gets another chance
	// now and then, since what it misses may be on the node.
	Refused State = "refused"
	// Disabled is by configuration, Removed one whose file is gone, until nothing
	// of it is left. Stopped because the host ends.
	Disabled State = "disabled"
	Removed  State = "removed"
	Stopped  State = "stopped"
)

// unfit is a reason not to run a file that may go away with the file as it is: the
// rights of a directory above it, or its absence for a while.
type unfit struct{ error }

func (u unfit) Unwrap() error { return u.error }

var (
	// errAgain ends an attempt whose settings have changed meanwhile.
	errAgain = errors.New("its settings need a new process")
	// errLeaves ends an instance whose plugin was removed or disabled, errReplaced
	// one that another has taken over from.
	errLeaves   = errors.New("its plugin was removed or disabled")
	errReplaced = errors.New("another process has taken over")
)

// harmless reports whether why is no fault of the plugin.
func harmless(why error) bool {
	return why == nil || errors.Is(why, errAgain) || errors.Is(why, errLeaves) || errors.Is(why, errReplaced) || errors.Is(why, plugindir.ErrIncomplete)
}

// A member is one plugin of the directory, whether it runs or not.
type member struct {
	supervisor *Supervisor
	name       string
	log        *lineLog
	// kick ends waiting: something has changed.
	kick chan struct{}
	// renew asks whether the process that serves is still the right one.
	renew chan struct{}
	// firstSlot is the place that it was given in the queue when it was begun, nil
	// once it has been used. Only begin and then its goroutine touch it.
	firstSlot *startSlot

	// Below is guarded by the supervisor's mutex.
	cancel  context.CancelFunc
	running bool // its goroutine is
	leaving bool
	// file is what the directory has, looks counts how often it was another one.
	file  plugindir.ID
	looks int
	// dangling: the file is a link to nothing.
	dangling bool
	// first is set until the first attempt at the host's start was made.
	first     bool
	candidate *process
	// rivals are the custom plugins that were found together with this one and
	// want the same.
	rivals map[string]bool
	// described is what the plugin said of itself when it was last asked.
	described *eviction.Plugin
	instance  *process
	// replacement is how the attempt at replacing the instance goes, or went wrong.
	replacement *Replacement
	state       State
	since       time.Time
	until       time.Time // of backoff and quarantine
	reason      error     // for not running
	lastError   error
	starts      int
	// late is how many starts in a row took too long.
	late  int
	swaps int
	// observes is what it observed when it last served, nil if it never did.
	observes []eviction.Signal
	// slowness is that of its answers, whichever process gave them.
	slowness client.Slowness
}

func newMember(s *Supervisor, name string) *member {
	return &member{
		supervisor: s, name: name, log: newLineLog(s.log, name),
		kick: make(chan struct{}, 1), renew: make(chan struct{}, 1), rivals: map[string]bool{},
	}
}

// enter changes the state. The mutex is held.
func (m *member) enter(state State, why error) {
	if m.state != state || why != nil && state != Waiting {
		m.state, m.since = state, time.Now()
	}
	m.reason, m.until = why, time.Time{}
	if !harmless(why) {
		m.lastError = why
	}
}

// changed takes note of another file in the place of the one that there was. It
// counts fresh. The mutex is held.
func (m *member) changed(file plugindir.ID) {
	m.file = file
	m.looks++
	if m.slowness.Standby() {
		m.supervisor.metrics.PluginStandby(m.name, false)
	}
	m.slowness = client.Slowness{}
	clear(m.rivals)
	for _, other := range m.supervisor.members {
		if other.rivals[m.name] {
			delete(other.rivals, m.name)
			m.supervisor.kickRefused()
		}
	}
	signal(m.renew)
	signal(m.kick)
}

// leave ends the member, its process at the end of the passes that use it. The
// mutex is held.
func (m *member) leave(to State) {
	s := m.supervisor
	m.leaving = true
	m.enter(to, nil)
	m.replacement = nil
	i := m.instance
	if i == nil {
		m.disclaim()
		signal(s.changed)
		m.cancel()
		return
	}
	s.condemn(i, sentence{why: errLeaves})
	m.disclaim()
	if alone := s.unobserved(i); len(alone) > 0 {
		s.log.Warn("plugin leaves and nobody observes its signals any more", "plugin", m.name, "because", to, "signals", alone)
	} else {
		s.log.Info("plugin leaves", "plugin", m.name, "because", to)
	}
}

// unobserved lists what an instance observed that nobody does now. The mutex is
// held.
func (s *Supervisor) unobserved(i *process) []eviction.Signal {
	return slices.DeleteFunc(registry.Observed(i.Plugin), func(sig eviction.Signal) bool {
		return len(s.current.Registry().Providers(sig, eviction.CanObserve)) > 0
	})
}

// run keeps the plugin running until ctx ends or the member leaves. The end of
// host is that of all plugins.
func (m *member) run(ctx, host context.Context) {
	s := m.supervisor
	defer m.gone()
	crashes := newCrashes(s.patience)
	for ctx.Err() == nil {
		seen := m.sight()
		i, err := m.attempt(ctx)
		m.settled(err)
		var ran time.Duration
		hung := false
		for next := i; next != nil; {
			begin := time.Now()
			seen.looks = next.looks
			next, hung, err = m.serve(ctx, host, next)
			ran = time.Since(begin)
			// It ran through all that has changed but for its file.
			looks := seen.looks
			seen = m.sight()
			seen.looks = looks
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

// attempt starts the plugin and puts it into service.
func (m *member) attempt(ctx context.Context) (*process, error) {
	mark := m.log.kept.Mark()
	i, err := m.start(ctx)
	m.triedFirst(i)
	if err == nil {
		err = m.admit(ctx, i)
	}
	if err == nil {
		m.noteLate(nil)
		return i, nil
	}
	m.noteLate(err)
	if errors.Is(err, eviction.ErrRefused) {
		err = plugindir.Refusal{Err: err}
	}
	if ctx.Err() == nil && !harmless(err) {
		m.supervisor.log.Error("plugin did not start", "plugin", m.name, "error", err, "output", m.log.since(mark))
	}
	return nil, err
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
	if slot := m.firstSlot; slot != nil {
		slot.release()
	}
	// Nobody is to wait for one that left before it could begin.
	m.triedFirst(nil)
	m.settled(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	m.running = false
	m.disclaim()
	signal(s.changed) // also if it never served: nobody waits for it any more
	if !m.leaving {
		m.enter(Stopped, nil)
	}
	signal(s.rescan)
}

// disclaim gives up what the plugin has served, which is switched off by that.
// The mutex is held.
func (m *member) disclaim() {
	if _, had := m.supervisor.claims[m.name]; had {
		delete(m.supervisor.claims, m.name)
		m.supervisor.kickRefused()
	}
}
