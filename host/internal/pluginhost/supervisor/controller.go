package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/roles"
	"github.com/evictd/evictd/host/internal/pluginhost/startup"
	"github.com/evictd/evictd/shared/eviction"
)

// A controller reconciles processes with files and settings: it starts and ends them. It belongs to
// the supervisor's loop, which calls it after each event and publishes the catalog. It never
// blocks: run executes a function outside the loop, and then calls the function that this one
// returns in the loop.
type controller struct {
	*catalog

	launcher launcher
	asked    *client.Asked
	// slots bounds the plugins that start at a time, for slotLimit each at most.
	slots     int
	slotLimit time.Duration

	run    func(work func(context.Context) (conclude func())) context.CancelFunc
	after  func(time.Duration, func()) *time.Timer
	report func(func()) // calls a function in the loop, from the call of a plugin

	// ineffective holds the assignments without effect.
	ineffective []roles.Ineffective
	generation  uint64
	// begun: the first starts have begun; started: the start is over.
	begun, started bool
	// failed holds the errors of in-process plugins that did not serve at the start.
	failed []error
}

// found updates the catalog with the files in the directory.
func (c *controller) found(files map[string]plugindir.File) {
	for name, f := range files {
		p := c.plugins[name]
		if p == nil {
			p = c.newPlugin(name, f)
			p.first = c.begun && !c.started && c.Settings[name].expected()
			c.plugins[name] = p
			continue
		}
		former := p.file
		p.there, p.file = true, f
		if r, ok := errors.AsType[plugindir.Refusal](p.reason); ok && r.MayPass && f.Fit && p.State == Refused {
			p.wake()
		}
		if f.ID != former.ID && p.life != leaving {
			c.replaced(p)
		}
	}
	for name, p := range c.plugins {
		if _, there := files[name]; !there {
			p.there = false
		}
	}
	if !c.begun {
		c.begin()
	}
}

// begin marks each plugin found at the start as one that Started waits for.
func (c *controller) begin() {
	c.begun = true
	c.warnUnknown()
	outside := len(c.Inside) == 0 || len(absent(c.Settings, c.plugins)) > 0
	for name, p := range c.plugins {
		p.first = c.unwanted(p) == ""
		outside = outside || !c.Inside.has(name, p.file.ID)
	}
	if outside {
		c.after(c.Timeouts.Start, func() { c.judgeStart(true) })
	}
}

// absent returns the names of the expected plugins that are not there.
func absent(settings map[string]Settings, plugins map[string]*plugin) (names []string) {
	for name, s := range settings {
		if s.expected() && plugins[name] == nil {
			names = append(names, name)
		}
	}
	return names
}

// settle advances all plugins until the latest event has no further consequence.
func (c *controller) settle() {
	for c.again = c.begun; c.again; {
		c.again = false
		for _, p := range c.sorted() {
			c.advance(p)
		}
		c.grantStarts()
		r := c.registry()
		c.judgeAssignment(r)
		c.judgeConflicts(r)
		c.judgeStart(false)
	}
}

// startSlotLimit bounds the time for which a slow start keeps its slot from others.
const startSlotLimit = time.Second

// grantStarts staggers the starts of plugins, because on a slow machine simultaneous starts all
// miss their time limits. As many plugins start at a time as there are CPUs, each when its file is
// complete, or at the host's start at once: the one for memory first, which runs out fastest, then the
// other built-in ones.
func (c *controller) grantStarts() {
	free := c.slots
	var waiting []*plugin
	for _, p := range c.sorted() {
		switch a := p.starting; {
		case a == nil:
		case a.Turn == startup.Holds:
			free--
		case a.Turn == startup.Waits && (a.Phase == startup.Ready || p.first):
			waiting = append(waiting, p)
		}
	}
	slices.SortStableFunc(waiting, func(p, q *plugin) int {
		return cmp.Or(startRank(p.Name)-startRank(q.Name), p.starting.began.Compare(q.starting.began))
	})
	for _, p := range waiting[:min(max(free, 0), len(waiting))] {
		a := p.starting
		c.again = true
		c.move(p, a, startup.TurnBegins, nil)
		c.after(c.slotLimit, func() { c.move(p, a, startup.TurnEnds, nil) })
	}
}

// startRank returns the place of a plugin among those that wait for their start: that of its first
// signal in the kubelet's list, which begins with memory.
func startRank(name string) int {
	signals := eviction.SignalsOf(name)
	if len(signals) == 0 {
		return math.MaxInt
	}
	return slices.Index(eviction.BuiltinSignals(), signals[0])
}

// judgeStart ends the start when each plugin serves or has failed, or when it is overdue.
func (c *controller) judgeStart(overdue bool) {
	late := absent(c.Settings, c.plugins)
	for _, p := range c.sorted() {
		if p.first {
			late = append(late, p.Name)
		}
	}
	if overdue && !c.started {
		c.Log.Warn("plugin start timed out", "plugins", late, "waited", c.Timeouts.Start.String())
	}
	c.started = c.started || overdue || len(late) == 0
}

// judgeAssignment logs once each assignment without effect.
func (c *controller) judgeAssignment(r *registry.Registry) {
	former := c.ineffective
	c.ineffective = roles.WithoutEffect(r)
	for _, a := range c.ineffective {
		if !c.stopping && !slices.Contains(former, a) {
			c.Log.Warn("assignment to a plugin has no effect", "signal", a.Signal, "capability", a.Capability, "plugin", a.Plugin, "because", a.Because)
		}
	}
}

// judgeConflicts takes plugins out of service that define a signal differently from an earlier one by name.
func (c *controller) judgeConflicts(r *registry.Registry) {
	for _, i := range r.Instances() {
		err := roles.Conflict(r, i)
		if err == nil {
			continue
		}
		p := c.plugins[i.Name]
		if !c.started && c.Inside.has(p.Name, p.serving.file) {
			c.failed = append(c.failed, fmt.Errorf("plugin %s: %w", p.Name, err))
		}
		c.takeOut(p, plugindir.Refusal{Err: err}, false)
	}
}

// advance takes the next step that brings a plugin to its wanted state.
func (c *controller) advance(p *plugin) {
	end := c.unwanted(p)
	a := p.starting
	switch {
	case p.life == leaving:
		if a == nil {
			c.left(p)
		}
	case p.life == idle && end == Removed:
		c.forget(p)
	case p.life == idle && end != "":
		if p.State == "" {
			p.enter(end, nil)
		}
	case end != "":
		c.leave(p, end)
	case a != nil:
		c.advanceAttempt(p, a)
	case p.serving != nil && p.file.ID == p.serving.file && !c.outdated(p.serving):
		p.Replacement = nil
		p.resume()
	case p.first && p.file.Dangling && !c.started && c.Settings[p.Name].expected():
		// What copies its file may be about to start, too.
		p.enter(Waiting, nil)
	case p.pause == nil && p.ending == nil:
		if p.life == idle {
			p.life = active
			c.Metrics.PluginUp(p.Name, false)
		}
		c.attempt(p)
	}
}

// leave ends a plugin; its process ends after the passes that use it.
func (c *controller) leave(p *plugin, to State) {
	p.life = leaving
	p.enter(to, nil)
	p.Replacement = nil
	if p.starting != nil {
		c.move(p, p.starting, startup.BecomesStale, errOutdated)
	}
	proc := p.serving
	if proc != nil {
		p.serving = nil
		c.changed = true
		c.Metrics.PluginUp(p.Name, false)
		c.retire(p, proc, nil, false)
	}
	if proc != nil && to != Stopped {
		r := c.registry()
		alone := slices.DeleteFunc(proc.Plugin.Observes(), func(sig eviction.Signal) bool { return len(r.Providers(sig, eviction.CanObserve)) > 0 })
		if len(alone) > 0 {
			c.Log.Warn("plugin stopped, its signals are not observed", "plugin", p.Name, "because", to, "signals", alone)
		} else {
			c.Log.Info("plugin leaves", "plugin", p.Name, "because", to)
		}
	}
	c.advance(p)
}

// left completes the end of a plugin. It may be wanted again by now.
func (c *controller) left(p *plugin) {
	p.resume()
	p.life, p.first, p.ending = idle, false, nil
	p.crashes = newCrashes(c.restartPolicy)
	c.changed = true
	c.released() // even if it never served: the start must not wait for it
	switch {
	case c.stopping:
	case !p.there:
		c.forget(p)
	case p.State == Removed && !p.file.Dangling:
		c.plugins[p.Name] = c.newPlugin(p.Name, p.file) // If its file comes back its history starts over.
	}
}

// takeOut takes the process of a plugin out of service; another one will follow.
func (c *controller) takeOut(p *plugin, why error, unresponsive bool) {
	proc := p.serving
	p.serving, p.ending, p.Replacement = nil, proc, nil
	p.resume()
	p.changedFile = proc.file != p.file.ID // It has missed no other change.
	p.enter(Starting, why)
	c.changed = true
	c.Metrics.PluginUp(p.Name, false)
	c.retire(p, proc, why, unresponsive)
}

// retire ends a process when no pass uses it any more; why is nil if it did nothing wrong.
func (c *controller) retire(p *plugin, proc *process, why error, unresponsive bool) {
	ran := time.Since(proc.began)
	grace := c.Timeouts.Stop
	if unresponsive {
		grace = 0
	}
	c.run(func(ctx context.Context) func() {
		select {
		case <-ctx.Done():
		case <-proc.Unused():
		case <-proc.exited():
		}
		err := proc.end(grace)
		return func() {
			c.noteEnd(p, proc, why, err)
			if p.ending != proc {
				return
			}
			p.ending = nil
			if p.serving == nil && p.starting == nil && p.pause == nil && p.life != leaving && !errors.Is(why, errOutdated) {
				c.rest(p, why, ran, !unresponsive)
			}
		}
	})
}

func (c *controller) noteEnd(p *plugin, proc *process, why, undead error) {
	close(proc.gone)
	c.noteUndead(p, undead)
	switch {
	case c.Inside.has(p.Name, proc.file):
	case harmless(why) || c.stopping:
		c.Log.Info("plugin exited", "plugin", p.Name, "pid", proc.PID, "status", proc.ending(0))
	default:
		c.Log.Error("plugin exited", "plugin", p.Name, "pid", proc.PID, "error", why, "status", proc.ending(0))
	}
}

// rest makes a plugin wait until it may be started again: for some time, or until a change that the
// last attempt did not see.
func (c *controller) rest(p *plugin, why error, ran time.Duration, crashed bool) {
	state, wait := stateOf(why), time.Duration(0)
	switch state {
	case Waiting:
		wait = plugindir.Poll
		if p.State != Waiting {
			c.Log.Info("plugin file is being written, start waits", "plugin", p.Name, "reason", why)
		}
	case Refused:
		wait = c.restartPolicy.window // The obstacle may have disappeared without an event.
	default:
		if hostFault(why) {
			wait = c.restartPolicy.hostFault
			break
		}
		var quarantine bool
		if wait, quarantine = p.crashes.next(time.Now(), ran, crashed && !strained(why)); quarantine {
			state = Quarantined
			c.Log.Error("plugin in quarantine", "plugin", p.Name, "crashes", c.restartPolicy.crashes, "for", wait.String(), "error", why)
		}
	}
	p.enter(state, why)
	if p.changedFile {
		p.crashes.forget()
		return
	}
	if state == Backoff || state == Quarantined {
		until := time.Now().Add(wait)
		p.Until = &until
	}
	c.pause(p, wait)
}

// forever is a pause that only a change ends.
const forever = time.Duration(math.MaxInt64)

// pause makes a plugin wait for some time, or for a change if that comes sooner.
func (c *controller) pause(p *plugin, wait time.Duration) {
	var this *time.Timer
	this = c.after(wait, func() {
		if p.pause == this {
			p.pause = nil
		}
	})
	p.pause = this
}
