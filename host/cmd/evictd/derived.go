package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

type layoutGroup struct {
	layout eviction.Layout
	names  []string
	from   string
}

// layoutGroups are the layouts of a node by where writable layers get their
// thresholds from.
var layoutGroups = []layoutGroup{
	{eviction.LayoutShared, []string{config.LayoutShared, config.LayoutContainerFs}, "nodefs"},
	{eviction.LayoutImageFs, []string{config.LayoutImageFs}, "imagefs"},
}

// derivedTable shows the thresholds of writable layers, which nobody configures,
// as they will be once the node's filesystems are known. It is empty where there
// are none.
func derivedTable(cfg *config.Config, thresholds []policy.Threshold) []byte {
	rows := [][]string{append(thresholdHeading("DERIVED"), "LAYOUT OF THE NODE")}
	for _, g := range layoutGroups {
		names := g.possible(cfg)
		if len(names) == 0 {
			continue
		}
		for _, t := range policy.WithContainerFs(thresholds, g.layout).Derived {
			if ofContainerFs(t.Signal) {
				rows = append(rows, append(thresholdRow(t), strings.Join(names, ", ")))
			}
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return append([]byte("\n"), table(rows)...)
}

// warnDropped tells of configured thresholds that other ones take the place of.
func warnDropped(cfg *config.Config, thresholds []policy.Threshold) []string {
	var warnings []string
	for _, g := range layoutGroups {
		names := g.possible(cfg)
		if len(names) == 0 {
			continue
		}
		for _, t := range policy.WithContainerFs(thresholds, g.layout).Dropped {
			warnings = append(warnings, fmt.Sprintf("%s does not stand where the layout is %s: containerfs has the thresholds of %s there, as in the kubelet",
				t, strings.Join(names, " or "), g.from))
		}
	}
	return warnings
}

// possible returns the layouts of g that the node may have: all, unless the
// configuration tells.
func (g *layoutGroup) possible(cfg *config.Config) []string {
	if cfg.Source != config.SourceSummary || cfg.Summary.Layout == "" {
		return g.names
	}
	if slices.Contains(g.names, cfg.Summary.Layout) {
		return []string{cfg.Summary.Layout}
	}
	return nil
}

func ofContainerFs(s eviction.Signal) bool {
	b, _ := eviction.Builtin(s)
	return b.Filesystem == eviction.ContainerFs
}
