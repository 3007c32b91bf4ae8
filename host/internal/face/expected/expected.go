// Package expected finds plugins that the configuration requires and that do not serve. A plugin
// with an entry is required, unless the entry disables it or has required: false.
package expected

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/shared/typo"
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

// Check returns errors about required plugins that are not in the plugin directory, and warnings
// about other settings and assignments for plugins that are not there: mostly misspelled names.
func Check(c *config.Config) (errs []error, warnings []string) {
	names, err := plugindir.Names(c.PluginDir)
	if err != nil {
		return nil, nil // supervisor.Check reports it
	}
	if c.UsesSummary() {
		names = append(names, config.SourceSummary) // part of evictd
	}
	meant := func(name string) string {
		if near := typo.Nearest(name, names); near != "" {
			return fmt.Sprintf(", is %q meant?", near)
		}
		return ""
	}
	look := func(field, name string) {
		if !slices.Contains(names, name) {
			warnings = append(warnings, fmt.Sprintf("%s has no effect: %s is not there%s", field, filepath.Join(c.PluginDir, name), meant(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Plugins)) {
		if c.Plugins[name].Wanted(name, false) && !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("plugin %s: %s%s", name, missing(c, name), meant(name)))
			continue
		}
		look(fmt.Sprintf("plugins[%q]", name), name)
	}
	for _, sig := range slices.Sorted(maps.Keys(c.Assign)) {
		for _, word := range slices.Sorted(maps.Keys(c.Assign[sig])) {
			look(fmt.Sprintf("assign[%q].%s", sig, word), c.Assign[sig][word])
		}
	}
	return errs, warnings
}

// CheckRunning returns errors about required plugins that do not serve a running daemon, except for
// those that found has, and warnings about plugins that were not replaced.
func CheckRunning(c *config.Config, plugins []supervisor.Status, found []string) (errs, warnings []string) {
	for _, a := range NotServing(c, plugins) {
		if !slices.ContainsFunc(found, func(text string) bool { return strings.HasPrefix(text, "plugin "+a.Plugin+": "+a.Cause) }) {
			errs = append(errs, "running evictd: "+a.Error())
		}
	}
	for _, p := range plugins {
		if r := p.Replacement; r != nil && r.State == supervisor.Refused {
			warnings = append(warnings, fmt.Sprintf("running evictd: plugin %s was not replaced: %s", p.Name, r.Reason))
		}
	}
	return errs, warnings
}

const (
	// watchInterval is the interval at which Watch looks at the plugins.
	watchInterval = 2 * time.Second
	// reportedAfter is the time without a plugin after which Watch reports it.
	reportedAfter = 10 * time.Second
	// mostCauses bounds the reports of one episode: the plugin may word its cause differently each time.
	mostCauses = 5
)

// An episode is a time in which one plugin does not serve.
type episode struct {
	since    time.Time
	reported []string // causes
}

// Watch reports each plugin that does not serve for long, once for each cause, until ctx ends.
func Watch(ctx context.Context, notServing func() []Absence, report func(Absence)) {
	look := time.NewTicker(watchInterval)
	defer look.Stop()
	for former := map[string]*episode{}; ; {
		now := map[string]*episode{}
		for _, a := range notServing() {
			e := former[a.Plugin]
			if e == nil {
				e = &episode{since: time.Now()}
			}
			now[a.Plugin] = e
			if time.Since(e.since) >= reportedAfter && len(e.reported) < mostCauses && !slices.Contains(e.reported, a.Cause) {
				e.reported = append(e.reported, a.Cause)
				report(a)
			}
		}
		former = now
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}
