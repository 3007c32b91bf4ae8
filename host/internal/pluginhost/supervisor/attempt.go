package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/roles"
	"github.com/evictd/evictd/host/internal/pluginhost/startup"
	"github.com/evictd/evictd/shared/eviction"
)

// swapPause is the pause before the next replacement attempt after one that failed on a busy node;
// it doubles up to mostSwapPause.
const (
	swapPause     = 5 * time.Second
	mostSwapPause = 5 * time.Minute
	// mostDoublings bounds how often the time limits of a start are doubled: a handshake then has 80 s.
	mostDoublings = 3
	// tailLines is the number of lines of output that are logged with a failed start.
	tailLines = 3
)

// attempt begins to start a plugin, beside the serving process if there is one.
func (c *controller) attempt(p *plugin) {
	a := &attempt{seen: p.file.ID, version: version{policy: startPolicyFor(c.Settings, p.Name)}, began: time.Now(), mark: p.log.Mark()}
	p.starting, p.changedFile = a, false
	switch {
	case p.serving != nil:
		p.replacing(Starting, nil)
	case p.State != Waiting: // otherwise it may be unchanged
		p.enter(Starting, nil)
	}
	a.cancel = c.run(func(ctx context.Context) func() {
		file, err := c.launcher.complete(ctx, p.Name)
		return func() {
			if err != nil {
				c.move(p, a, startup.Failed, err)
				return
			}
			a.file = file
			c.move(p, a, startup.FileCompletes, errOutdated)
		}
	})
}

// move applies an event to an attempt and acts on it. why is the reason if that ends the attempt.
func (c *controller) move(p *plugin, a *attempt, e startup.Event, why error) {
	var do startup.Action
	a.State, do = startup.Next(a.State, e)
	switch do {
	case startup.Cancel:
		a.cancel()
	case startup.Admit:
		c.admit(p, a)
	case startup.Discard:
		c.discard(p, a, why)
	case startup.Conclude:
		c.attemptFailed(p, a, why)
	case startup.None:
	}
}

// advanceAttempt takes the next step of an attempt, or gives it up if it is stale.
func (c *controller) advanceAttempt(p *plugin, a *attempt) {
	switch {
	case a.Stale:
	case a.seen != p.file.ID, !c.Inside.has(p.Name, a.seen) && a.policy != startPolicyFor(c.Settings, p.Name):
		c.move(p, a, startup.BecomesStale, errOutdated)
	case a.Phase == startup.Ready && a.Turn != startup.Waits:
		c.launch(p, a)
	}
}

func (c *controller) launch(p *plugin, a *attempt) {
	c.move(p, a, startup.LaunchBegins, nil)
	if p.serving == nil {
		if p.starts++; p.starts > 1 {
			c.Metrics.PluginRestarted(p.Name)
		}
	}
	c.generation++
	s := start{
		version: a.version, trial: c.trial, log: p.log, host: c.Host, configure: c.request(p), generation: c.generation,
		Config: client.Config{
			Name: p.Name, Timeouts: c.Timeouts, Doublings: p.late, Relays: p.Name == registry.Summary,
			Took:   func(call string, took time.Duration) { c.Metrics.CallTook(p.Name, call, took) },
			Report: c.reports(p, c.generation), Asked: c.asked, Log: c.Log,
		},
	}
	if p.serving != nil {
		s.replaces = p.serving.client
	}
	a.cancel = c.run(func(ctx context.Context) func() {
		proc, err := s.run(ctx, c.launcher)
		return func() { c.launched(p, a, proc, err) }
	})
}

func (c *controller) launched(p *plugin, a *attempt, proc *process, err error) {
	if err != nil {
		c.move(p, a, startup.Failed, err)
		return
	}
	a.proc = proc
	c.run(func(context.Context) func() {
		select {
		case <-proc.exited():
		case <-proc.gone:
			return func() {}
		}
		return func() {
			if p.serving == proc {
				c.takeOut(p, proc.died(), false)
			}
		}
	})
	c.move(p, a, startup.LaunchSucceeds, errOutdated)
}

// admit puts the process of an attempt into service, replacing the serving one, or ends it.
func (c *controller) admit(p *plugin, a *attempt) {
	proc := a.proc
	if c.outdated(proc) {
		c.move(p, a, startup.BecomesStale, errOutdated)
		return
	}
	if p.serving == nil {
		p.said = proc.Plugin // The status also shows refused plugins.
	}
	if err := roles.Conflict(c.registry(), proc.Instance); err != nil {
		c.move(p, a, startup.ServiceDenied, plugindir.Refusal{Err: err})
		return
	}
	req := c.request(p)
	if proc.client.Knows(req.ConfigureRequest) {
		c.serve(p, a)
		return
	}
	c.move(p, a, startup.ConfigureBegins, nil)
	a.cancel = c.run(func(ctx context.Context) func() {
		err := proc.client.Configure(ctx, req)
		return func() {
			if err := errors.Join(err, proc.died()); err != nil {
				c.move(p, a, startup.ServiceDenied, err)
				return
			}
			c.move(p, a, startup.ConfigureSucceeds, errOutdated)
		}
	})
}

// serve puts the process of an attempt into service.
func (c *controller) serve(p *plugin, a *attempt) {
	proc, former := a.proc, p.serving
	c.move(p, a, startup.ServiceBegins, nil)
	a.cancel()
	p.serving, p.starting, p.Replacement = proc, nil, nil
	p.said, p.observes = proc.Plugin, proc.Plugin.Observes()
	p.first, p.late, p.swapPause = false, 0, swapPause
	proc.began = time.Now()
	if _, refused := errors.AsType[plugindir.Refusal](p.lastError); refused || hostFault(p.lastError) {
		p.lastError = nil // The cause no longer applies.
	}
	p.enter(Running, nil)
	c.changed = true
	switch {
	case former != nil:
		p.Swaps++
		c.Log.Info("plugin replaced", "plugin", p.Name, "pid", proc.PID, "version", proc.Plugin.Version, "offers", roles.Offers(proc.Plugin),
			"formerPID", former.PID, "formerVersion", former.Plugin.Version)
		c.retire(p, former, nil, false)
		c.released()
	case !c.Inside.has(p.Name, proc.file):
		c.Log.Info("plugin started", "plugin", p.Name, "pid", proc.PID, "version", proc.Plugin.Version, "offers", roles.Offers(proc.Plugin))
	}
	c.Metrics.PluginUp(p.Name, true)
}

// discard ends the process of an attempt that will not serve.
func (c *controller) discard(p *plugin, a *attempt, why error) {
	proc := a.proc
	c.run(func(context.Context) func() {
		err := proc.end(c.Timeouts.Stop)
		return func() {
			close(proc.gone)
			c.move(p, a, startup.Failed, errors.Join(why, err))
		}
	})
}

// attemptFailed ends an attempt after its process is gone.
func (c *controller) attemptFailed(p *plugin, a *attempt, err error) {
	c.noteUndead(p, err)
	a.cancel()
	p.starting, c.again = nil, true
	if a.Stale || errors.Is(err, errOutdated) {
		return // The next attempt uses the current settings.
	}
	if p.serving != nil {
		c.notReplaced(p, a, err)
		return
	}
	if errors.Is(err, context.DeadlineExceeded) {
		// A slow machine would exceed the same limit again and again.
		p.late = min(p.late+1, mostDoublings)
	} else {
		p.late = 0
	}
	if errors.Is(err, eviction.ErrRefused) {
		err = plugindir.Refusal{Err: err}
	}
	reported := hostFault(err) && p.lastError != nil && p.lastError.Error() == err.Error()
	if !harmless(err) && !reported {
		c.Log.Error("plugin did not start", "plugin", p.Name, "error", err, "output", p.log.Since(a.mark, tailLines))
	}
	if p.first && c.Inside.has(p.Name, a.seen) {
		c.failed = append(c.failed, fmt.Errorf("plugin %s: %w", p.Name, err))
	}
	p.first = false
	if p.ending == nil {
		c.rest(p, err, 0, true)
	}
}

// notReplaced records a failed replacement; the former process keeps serving.
func (c *controller) notReplaced(p *plugin, a *attempt, err error) {
	if errors.Is(err, plugindir.ErrIncomplete) {
		if p.replacing(Waiting, err) {
			c.Log.Info("plugin file is being written, replacement waits", "plugin", p.Name, "reason", err)
		}
		c.pause(p, plugindir.Poll)
		return
	}
	p.replacing(Refused, err)
	c.Log.Error("plugin was not replaced, the former process stays", "plugin", p.Name, "error", err, "output", p.log.Since(a.mark, tailLines))
	switch {
	case p.changedFile: // the next attempt starts at once
	case strained(err):
		c.pause(p, p.swapPause)
		p.swapPause = min(2*p.swapPause, mostSwapPause)
	default:
		c.pause(p, forever)
	}
}

// reports returns a function that passes client reports on to the loop, which ignores them once the
// process no longer serves.
func (c *controller) reports(p *plugin, generation uint64) func(client.Report) {
	return func(r client.Report) {
		c.report(func() {
			if p.serving == nil || p.serving.Generation != generation {
				return
			}
			if r.Failed != nil {
				p.lastError = r.Failed
			}
			if p.slowness.Add(time.Now(), r.Delayed, r.Overspent) {
				c.standBy(p)
			}
			// An in-process plugin cannot be ended: its hanging call continues, and its client
			// skips the plugin until that returns.
			if r.Unresponsive != nil && !c.Inside.has(p.Name, p.serving.file) {
				c.takeOut(p, r.Unresponsive, true)
			}
		})
	}
}

// standBy moves a plugin behind all others for a while, but not in pinned registries.
func (c *controller) standBy(p *plugin) {
	c.Log.Warn("plugin answers too slowly and is asked after all others", "plugin", p.Name, "cost", p.slowness.Cost.String(),
		"within", client.SlowWindow.String(), "for", client.StandbyFor.String())
	c.Metrics.PluginStandby(p.Name, true)
	c.changed = true
	c.after(client.StandbyFor, func() {
		if p.slowness.Over(time.Now()) {
			c.Log.Info("plugin restored", "plugin", p.Name)
			c.Metrics.PluginStandby(p.Name, false)
			c.changed = true
		}
	})
}
