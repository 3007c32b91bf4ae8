package expected

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/typo"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
)

// Check returns errors about required plugins that are not in the plugin directory, and warnings
// about other settings and assignments for plugins that are not there: mostly misspelled names.
func Check(c *config.Config) (errs []error, warnings []string) {
	names, err := plugindir.Names(c.PluginDir)
	if err != nil {
		return nil, nil // supervisor.Check reports it
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
func CheckRunning(c *config.Config, plugins []supervisor.Status, found []error) (errs []error, warnings []string) {
	for _, a := range NotServing(c, plugins) {
		if !slices.ContainsFunc(found, func(err error) bool { return strings.HasPrefix(err.Error(), "plugin "+a.Plugin+": "+a.Cause) }) {
			errs = append(errs, fmt.Errorf("running evictd: %w", a))
		}
	}
	for _, p := range plugins {
		if r := p.Replacement; r != nil && r.State == supervisor.Refused {
			warnings = append(warnings, fmt.Sprintf("running evictd: plugin %s was not replaced: %s", p.Name, r.Reason))
		}
	}
	return errs, warnings
}
