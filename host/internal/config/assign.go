package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/evictd/evictd/shared/eviction"
)

// capabilityWords are what a plugin may do for a signal.
var capabilityWords = []string{"observe", "measure", "watch", "rank", "reclaim"}

// validPluginName reports whether a plugin can have the name, which is a file
// name.
func validPluginName(name string) bool {
	return name != "" && len(name) <= maxFileName && !strings.HasPrefix(name, ".") && !strings.HasSuffix(name, ".tmp") &&
		!strings.Contains(name, "/") && !strings.ContainsFunc(name, control)
}

// assignProblems finds what cannot be a signal, a capability or a plugin. Whether
// the plugin is there and offers it is known only while evictd runs.
func (c *Config) assignProblems() []error {
	var errs []error
	add := func(path []string, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: "+format, append([]any{pathString(path)}, args...)...))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Assign)) {
		at := []string{"assign", name}
		s := eviction.Signal(name)
		if _, builtin := eviction.Builtin(s); !builtin && s.ValidOwn() != nil {
			add(at, `want one of the kubelet's signals such as "memory.available", or a domain-qualified one such as "acme.example/nvme.spare"`)
		}
		for _, word := range slices.Sorted(maps.Keys(c.Assign[name])) {
			path := append(slices.Clip(at), word)
			if !slices.Contains(capabilityWords, word) {
				add(path, "unknown capability, want one of %s", strings.Join(capabilityWords, ", "))
				continue
			}
			if plugin := c.Assign[name][word]; !validPluginName(plugin) {
				add(path, "%s: want %s", shown(strconv.Quote(plugin)), want(path))
			}
		}
	}
	return errs
}

// Assigned returns the plugin that is assigned a capability of a signal, "" if none is.
func (c *Config) Assigned(s eviction.Signal, capability string) string {
	return c.Assign[string(s)][capability]
}

// PossibleLayouts are those that the node's filesystems may have.
func (c *Config) PossibleLayouts() []eviction.Layout {
	if c.Source == SourceSummary {
		if l := eviction.LayoutNamed(c.Summary.Layout); l != 0 {
			return []eviction.Layout{l}
		}
	}
	return eviction.Layouts()
}
