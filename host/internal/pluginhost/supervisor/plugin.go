package supervisor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/startup"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// A State names the phase of a plugin's life.
type State string

// The states of a plugin.
const (
	// Starting lasts from finding the file until the plugin serves.
	Starting State = "starting"
	// Waiting means that the file is still being written.
	Waiting State = "waiting"
	Running State = "running"
	// Backoff waits for the next start after a crash or a failed start. Quarantined waits longer,
	// after repeated crashes.
	Backoff     State = "backoff"
	Quarantined State = "quarantined"
	// Refused means that the file must not be run, or that the plugin defines a signal differently
	// from another one, or refuses the host or its configuration. It is retried after a change; one that refuses by
	// itself also from time to time, because its reason may be on the node.
	Refused State = "refused"
	// Disabled by configuration. Removed: the file is gone, and the process is ending. Stopped
	// because the host ends.
	Disabled State = "disabled"
	Removed  State = "removed"
	Stopped  State = "stopped"
	// Missing means that the configuration has settings for it and pluginDir has no file.
	Missing State = "missing"
)

// errOutdated ends a process that has not failed.
var errOutdated = errors.New("its settings need a new process")

// harmless reports whether why is not the plugin's fault.
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

// hostFault reports whether why is a reason of the host that prevents every start.
func hostFault(why error) bool { return errors.Is(why, sandbox.ErrHostDir) }

// strained reports whether why may be the node's fault and not the plugin's: a missed time limit,
// or a resource missing on the host.
func strained(why error) bool {
	return isAny(why,
		sandbox.ErrHostDir, context.DeadlineExceeded, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE,
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO,
	)
}

// A life says whether a plugin should have a process.
type life int

const (
	// idle: no process, and nothing left of a former one.
	idle life = iota
	active
	// leaving: the process is ending.
	leaving
)

// A plugin is one plugin of the directory, running or not. It belongs to the controller.
type plugin struct {
	// Status holds the status fields that are not derived from the others.
	Status

	log *output.Log

	// there: its file is in the directory.
	there bool
	file  plugindir.File

	// serving is the process in the registry, starting the attempt to start or replace it, ending a
	// process that must be gone before the next attempt. Each may be nil.
	serving  *process
	starting *attempt
	ending   *process
	// pause is the timer until the next attempt, which a change cuts short; nil if there is none.
	pause *time.Timer
	life  life
	// changedFile: a change that neither the last attempt nor the serving process has seen.
	changedFile bool
	// first is set until the first attempt at the host's start is over.
	first bool
	// said is the plugin's last description of itself.
	said *eviction.Plugin
	// observes lists the signals that it observed when it last served, nil if it never did.
	observes  []eviction.Signal
	reason    error // for not running
	lastError error
	// starts counts the starts, late the consecutive ones that took too long.
	starts, late int
	crashes      *crashes
	// swapPause is the pause before the next replacement attempt.
	swapPause time.Duration
	// slowness of its answers, across processes.
	slowness client.Slowness
}

// An attempt starts a plugin, perhaps beside the serving process. It begins by checking the file.
type attempt struct {
	version
	startup.State

	cancel context.CancelFunc
	began  time.Time
	// seen identifies the file at the begin.
	seen plugindir.ID
	// proc is set from the phase launched on.
	proc *process
	// mark is the position in the plugin's output at the begin.
	mark int
}

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

// wake retries the plugin after a change.
func (p *plugin) wake() {
	p.changedFile = true
	p.resume()
}

func (p *plugin) registration(by Settings) registry.Plugin {
	r := registry.Plugin{
		Name: p.Name, State: string(p.State), Said: p.said, Slow: p.slowness.Standby(), Observes: p.observes, Config: string(by.Config),
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
	if p.life != leaving && p.State != Disabled && p.State != Stopped && !p.file.Dangling {
		r.Missing = fmt.Errorf("plugin %s does not run (%s)", p.Name, p.State)
		if p.lastError != nil {
			r.Missing = fmt.Errorf("%w: %w", r.Missing, p.lastError)
		}
	}
	return r
}

// replacing updates the status of the replacement, and reports whether it changed: an incomplete
// file is checked again and again.
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
