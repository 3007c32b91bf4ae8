// Package expected finds plugins that the configuration requires and that do not serve. A plugin
// with an entry is required, unless the entry disables it or has required: false.
package expected

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
)

// An Absence is an error about a required plugin that does not serve.
type Absence struct {
	Plugin string
	State  supervisor.State
	// Cause may be empty while the plugin starts.
	Cause string
}

// Error returns the absence in one line.
func (a Absence) Error() string {
	parts := []string{"plugin " + a.Plugin, string(a.State), a.Cause}
	if a.State == supervisor.Missing {
		parts[1] = "" // The cause says it.
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// Plugins returns plugins with a row for each one that has an entry in c and no file, by name.
func Plugins(c *config.Config, plugins []supervisor.Status) []supervisor.Status {
	for name, p := range c.Plugins {
		if !p.Disabled && !slices.ContainsFunc(plugins, func(s supervisor.Status) bool { return s.Name == name }) {
			plugins = append(plugins, supervisor.Status{Name: name, State: supervisor.Missing, Reason: missing(c, name)})
		}
	}
	slices.SortFunc(plugins, func(a, b supervisor.Status) int { return cmp.Compare(a.Name, b.Name) })
	return plugins
}

// missing says that a plugin has no file, and what would be right.
func missing(c *config.Config, name string) string {
	text := fmt.Sprintf("is not there: want %[1]s or %[1]s.sock", filepath.Join(c.PluginDir, name))
	if c.Plugins[name].Wanted(name, false) {
		text += fmt.Sprintf(", or plugins.%s.required: false", name)
	}
	return text
}

// NotServing returns the plugins that c requires and that do not serve, by name.
func NotServing(c *config.Config, plugins []supervisor.Status) (all []Absence) {
	for _, p := range Plugins(c, plugins) {
		if entry, listed := c.Plugins[p.Name]; listed && entry.Wanted(p.Name, p.State != supervisor.Missing) && p.State != supervisor.Running {
			all = append(all, Absence{p.Name, p.State, strings.ReplaceAll(cmp.Or(p.Reason, p.LastError), "\n", "; ")})
		}
	}
	return all
}

// Errors returns NotServing as errors.
func Errors(c *config.Config, plugins []supervisor.Status) (errs []error) {
	for _, a := range NotServing(c, plugins) {
		errs = append(errs, a)
	}
	return errs
}
