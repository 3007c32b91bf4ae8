package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/output"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// A catalog is all that is known of the plugins, and what is wanted of them. It
// belongs to the controller.
type catalog struct {
	Options

	plugins map[string]*plugin
	// insiders are the plugins of this process.
	insiders      insiders
	restartPolicy restartPolicy

	// undead are processes that could not be killed.
	undead []error

	// changed: who serves what has changed, and is to be reported.
	changed bool
	// again: another step may follow from the last one.
	again, stopping bool
}

func (c *catalog) newPlugin(name string, f plugindir.File) *plugin {
	return &plugin{
		Status: Status{Name: name, Since: time.Now()}, log: output.New(c.Log, name), there: true, file: f,
		crashes: newCrashes(c.restartPolicy), swapPause: swapPause,
	}
}

// sorted returns the plugins by name.
func (c *catalog) sorted() []*plugin {
	all := make([]*plugin, 0, len(c.plugins))
	for _, name := range slices.Sorted(maps.Keys(c.plugins)) {
		all = append(all, c.plugins[name])
	}
	return all
}

// warnUnknown logs settings that no plugin has, most likely a misspelled name.
func (c *catalog) warnUnknown() {
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		if c.plugins[name] == nil && name != allPlugins {
			c.Log.Warn("settings for a plugin that is not there have no effect", "plugin", name, "pluginDir", c.Dir)
		}
	}
}

// replaced takes note of another file in the place of the one that there was. It
// counts fresh.
func (c *catalog) replaced(p *plugin) {
	if p.slowness.Standby() {
		c.Metrics.PluginStandby(p.Name, false)
	}
	p.slowness = client.Slowness{}
	if p.contender {
		p.contender = false
		c.released()
	}
	p.wake()
}

// released has plugins tried again that might serve now that others serve less.
func (c *catalog) released() {
	c.again = true
	for _, p := range c.plugins {
		p.released = true
		if p.State == Refused || p.Replacement != nil && p.Replacement.State == Refused {
			p.resume()
		}
	}
}

// registry decides who serves what by what is known now.
func (c *catalog) registry() *registry.Registry {
	var all []registry.Plugin
	for _, p := range c.sorted() {
		all = append(all, p.registration(c.Settings[p.Name]))
	}
	for _, sig := range eviction.BuiltinSignals() {
		b, _ := eviction.Builtin(sig)
		p := c.plugins[b.Plugin]
		if !c.ExpectBuiltins || c.Settings[b.Plugin].Disabled || p != nil && p.life != leaving && !p.file.Dangling {
			continue
		}
		// It has to be there.
		all = slices.DeleteFunc(all, func(p registry.Plugin) bool { return p.Name == b.Plugin })
		all = append(all, registry.Plugin{
			Name: b.Plugin, Unassignable: "is not there", Observes: eviction.SignalsOf(b.Plugin), Missing: fmt.Errorf("plugin %s is not there", b.Plugin),
		})
	}
	return registry.New(all, c.Assign)
}

// unwanted returns the state that a plugin is to end in, "" if it is to run.
func (c *catalog) unwanted(p *plugin) State {
	switch {
	case c.stopping:
		return Stopped
	case !p.there, p.file.Dangling && p.serving != nil: // A link to nothing is refused, and says so, when nothing runs.
		return Removed
	case c.Settings[p.Name].Disabled:
		return Disabled
	default:
		return ""
	}
}

// outdated reports whether the settings need a new process.
func (c *catalog) outdated(proc *process) bool {
	return !c.insiders.has(proc.Name, proc.file) && proc.policy != startPolicyFor(c.Settings, proc.Name)
}

// unregister gives up what the plugin has served, which is switched off by that.
func (c *catalog) unregister(p *plugin) {
	if p.registered != nil {
		p.registered = nil
		c.released()
	}
}

// forget removes a plugin whose file is gone.
func (c *catalog) forget(p *plugin) {
	delete(c.plugins, p.Name)
	c.Metrics.PluginGone(p.Name)
	c.released()
}

// noteUndead takes note of a process that could not be killed.
func (c *catalog) noteUndead(p *plugin, err error) {
	if undead, ok := errors.AsType[undeadError](err); ok {
		c.Log.Error("plugin cannot be ended", "plugin", p.Name, "error", undead)
		c.undead = append(c.undead, undead)
	}
}

// request returns the configuration of a plugin.
func (c *catalog) request(p *plugin) eviction.ConfigureRequest {
	return eviction.ConfigureRequest{Node: c.Node, Config: c.Settings[p.Name].Config}
}

// conflicts returns what keeps a plugin from serving: the plugins that are registered, and
// contenders for each other, of whom none was there first.
func (c *catalog) conflicts(p *plugin, mine *registry.Instance) error {
	var errs []error
	r := c.registry()
	for _, other := range c.sorted() {
		theirs := other.registered
		if theirs == nil && p.contender && other.contender {
			theirs = other.said
		}
		if other != p && theirs != nil && !c.Settings[other.Name].Disabled {
			errs = append(errs, r.Conflict(&registry.Instance{Name: other.Name, Plugin: theirs}, mine))
		}
	}
	return errors.Join(errs...)
}

// snapshot returns what is known now, with who serves what.
func (c *catalog) snapshot(r *registry.Registry) *snapshot {
	s := &snapshot{registry: r}
	for _, p := range c.sorted() {
		s.plugins = append(s.plugins, p.status())
		s.logs = append(s.logs, p.log)
		if !c.insiders.has(p.Name, p.file.ID) {
			s.plugins[len(s.plugins)-1].Path = filepath.Join(c.Dir, p.Name)
		}
	}
	return s
}
