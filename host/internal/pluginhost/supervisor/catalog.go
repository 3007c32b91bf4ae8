package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/pluginhost/output"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// A catalog holds the state and the settings of all plugins. It belongs to the controller.
type catalog struct {
	Options

	plugins       map[string]*plugin
	restartPolicy restartPolicy

	// undead are processes that could not be killed.
	undead []error

	// changed: the registry has changed and must be published.
	changed bool
	// again: the last step may allow another one.
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

// warnUnknown logs settings for plugins that do not exist, most likely misspelled names.
func (c *catalog) warnUnknown() {
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		if c.plugins[name] == nil && name != allPlugins {
			c.Log.Warn("settings for a plugin that is not there have no effect", "plugin", name, "pluginDir", c.Dir)
		}
	}
}

// replaced starts the history of crashes and slowness over: another file has replaced the plugin's.
func (c *catalog) replaced(p *plugin) {
	if p.slowness.Standby() {
		c.Metrics.PluginStandby(p.Name, false)
	}
	p.slowness = client.Slowness{}
	p.wake()
}

// released retries plugins that may be able to serve now that another one has left or was replaced.
func (c *catalog) released() {
	c.again = true
	for _, p := range c.plugins {
		p.changedFile = true
		if p.State == Refused || p.Replacement != nil && p.Replacement.State == Refused {
			p.resume()
		}
	}
}

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
		// A missing built-in plugin is reported as such.
		all = slices.DeleteFunc(all, func(p registry.Plugin) bool { return p.Name == b.Plugin })
		all = append(all, registry.Plugin{
			Name: b.Plugin, Unassignable: "is not there", Observes: eviction.SignalsOf(b.Plugin), Missing: fmt.Errorf("plugin %s is not there", b.Plugin),
		})
	}
	return registry.New(all, c.Assign)
}

// unwanted returns the state that a plugin must end in, "" if it should run.
func (c *catalog) unwanted(p *plugin) State {
	switch {
	case c.stopping:
		return Stopped
	case !p.there, p.file.Dangling && p.serving != nil: // A dangling link is refused and reported once nothing runs.
		return Removed
	case c.Settings[p.Name].Disabled:
		return Disabled
	default:
		return ""
	}
}

// outdated reports whether the settings require a new process.
func (c *catalog) outdated(proc *process) bool {
	return !c.Inside.has(proc.Name, proc.file) && proc.outdatedBy(c.Settings)
}

// outdatedBy reports whether settings take another process.
func (p *process) outdatedBy(settings map[string]Settings) bool {
	return p.policy != startPolicyFor(settings, p.Name) || p.Plugin.SignalsFromConfig && !bytes.Equal(p.described, settings[p.Name].Config)
}

func (c *catalog) forget(p *plugin) {
	delete(c.plugins, p.Name)
	c.Metrics.PluginGone(p.Name)
}

func (c *catalog) noteUndead(p *plugin, err error) {
	if undead, ok := errors.AsType[undeadError](err); ok {
		c.Log.Error("plugin cannot be ended", "plugin", p.Name, "error", undead)
		c.undead = append(c.undead, undead)
	}
}

func (c *catalog) request(p *plugin) client.Configuration {
	return c.Settings[p.Name].configuration(c.Node)
}

func (c *catalog) snapshot(r *registry.Registry) *snapshot {
	s := &snapshot{registry: r}
	for _, p := range c.sorted() {
		s.plugins = append(s.plugins, p.status())
		s.logs = append(s.logs, p.log)
	}
	return s
}
