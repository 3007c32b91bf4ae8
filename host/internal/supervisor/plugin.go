package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/output"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/host/internal/supervisor/startup"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// A State names the phase of a plugin's life.
type State string

// The states of a plugin.
const (
	// Starting is from the first look at the file until the plugin serves.
	Starting State = "starting"
	// Waiting is for a file that is still being written.
	Waiting State = "waiting"
	Running State = "running"
	// Backoff waits for the next start after a crash, or one that the host could not
	// make. Quarantined waits longer, after crashes.
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

// errOutdated is the reason for ending a process that has not failed.
var errOutdated = errors.New("its settings need a new process")

// harmless reports whether why is no fault of the plugin.
func harmless(why error) bool {
	return why == nil || isAny(why, errOutdated, plugindir.ErrIncomplete)
}

func isAny(why error, all ...error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(why, one) })
}

// stateOf returns the state of a plugin that could not be started.
func stateOf(why error) State {
	if errors.Is(why, plugindir.ErrIncomplete) {
		return Waiting
	}
	if _, ok := errors.AsType[plugindir.Refusal](why); ok {
		return Refused
	}
	return Backoff
}

// hostFault reports whether why is the host's own reason for not starting any plugin.
func hostFault(why error) bool { return errors.Is(why, sandbox.ErrHostDir) }

// strained reports whether why may be the node's fault and not the plugin's: it was
// late, or the host lacked something to start it with.
func strained(why error) bool {
	return isAny(why,
		sandbox.ErrHostDir, context.DeadlineExceeded, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
	)
}

// A life says whether a plugin is to have a process.
type life int

const (
	// idle: none, and nothing is left of a former one.
	idle life = iota
	active
	// leaving: none, once nothing is left of the one that it has.
	leaving
)

// A plugin is one plugin of the directory, whether it runs or not. It belongs to
// the controller.
type plugin struct {
	// Status holds the fields for the status that do not derive from the rest.
	Status

	log *output.Log

	// there: its file is in the directory.
	there bool
	file  plugindir.File

	// serving is the process that is in the registry, starting the attempt to have
	// one, or another one in its place, ending one that must be gone before there is
	// another attempt. They are nil if there is none.
	serving  *process
	starting *attempt
	ending   *process
	// pause lasts until the next attempt, or until something changes; nil if there is
	// none.
	pause *time.Timer
	life  life
	// changedFile: something has changed that the last attempt, or the process that serves,
	// did not know; freed: others serve less.
	changedFile, released bool
	// first is set until the first attempt at the host's start was made.
	first bool
	// contender: it was found together with others at the host's start and has not come
	// to serve since.
	contender bool
	// said is the plugin's last description of itself, registered the one it was admitted with,
	// until it gives that up.
	said, registered *eviction.Plugin
	// observes lists the signals that it observed when it last served, nil if it never did.
	observes  []eviction.Signal
	reason    error // for not running
	lastError error
	// starts counts those of processes, late the ones in a row that took too long.
	starts, late int
	crashes      *crashes
	// swapPause is the pause before another attempt at a replacement.
	swapPause time.Duration
	// slowness of its answers, whichever process gave them.
	slowness client.Slowness
}

// An attempt is one to start a plugin, beside the process that serves if there is one.
// It begins with a look at the file.
type attempt struct {
	version
	startup.State

	cancel context.CancelFunc
	began  time.Time
	// seen is the file that it began for.
	seen plugindir.ID
	// proc is there from the phase trial on.
	proc *process
	// mark is where the plugin's output was when it began.
	mark int
}

// enter changes the state.
func (p *plugin) enter(state State, why error) {
	if p.State != state || why != nil && state != Waiting {
		p.State, p.Since = state, time.Now()
	}
	p.reason, p.Until = why, nil
	if !harmless(why) {
		p.lastError = why
	}
}

// resume ends a pause.
func (p *plugin) resume() {
	if p.pause == nil {
		return
	}
	p.pause.Stop()
	p.pause = nil
	p.crashes.forget()
	p.swapPause = swapPause
}

// wake has the plugin tried again since something has changed.
func (p *plugin) wake() {
	p.changedFile = true
	p.resume()
}

// registration returns its entry for the registry.
func (p *plugin) registration(by Settings) registry.Plugin {
	r := registry.Plugin{
		Name: p.Name, State: string(p.State), Shadow: by.Shadow, Said: p.said, Slow: p.slowness.Standby(), Observes: p.observes,
		FirstStart: p.observes == nil && (p.first || p.late > 0),
	}
	if p.serving != nil {
		r.Instance = p.serving.Instance
	}
	if p.observes == nil {
		r.Observes = eviction.SignalsOf(p.Name)
	}
	switch {
	case p.life == leaving && p.State == Removed:
		r.Unassignable = "is not there"
	case p.life == leaving || by.Disabled:
		r.Unassignable = "is disabled"
	}
	if by.Shadow { // it is not missed
		r.Observes = nil
		return r
	}
	if p.life != leaving && p.State != Disabled && p.State != Stopped && !p.file.Dangling {
		r.Missing = fmt.Errorf("plugin %s does not run (%s)", p.Name, p.State)
		if p.lastError != nil {
			r.Missing = fmt.Errorf("%w: %w", r.Missing, p.lastError)
		}
	}
	return r
}

// replacing shows how the attempt at another process goes, and reports whether that is
// changedFile: an incomplete file is looked at again and again.
func (p *plugin) replacing(state State, why error) bool {
	r := &Replacement{State: state, Since: time.Now()}
	former := p.Replacement
	still := former != nil && former.State == Waiting && state != Refused
	if still {
		*r = *former
	}
	if why != nil {
		r.Reason = why.Error()
	}
	p.Replacement = r
	return !still
}
