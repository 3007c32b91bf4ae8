package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// thresholdTable is one line per threshold below a heading.
func thresholdTable(thresholds []policy.Threshold) []byte {
	rows := [][]string{thresholdHeading("SIGNAL")}
	for _, t := range thresholds {
		rows = append(rows, thresholdRow(t))
	}
	return table(rows)
}

func thresholdHeading(first string) []string {
	return []string{first, "THRESHOLD", "KIND", "GRACE PERIOD", "MINIMUM RECLAIM"}
}

func thresholdRow(t policy.Threshold) []string {
	kind, grace, reclaim := "hard", "", ""
	if !t.Hard() {
		kind, grace = "soft", t.GracePeriod.String()
	}
	if t.MinReclaim != nil {
		reclaim = t.MinReclaim.String()
	}
	return []string{string(t.Signal), t.Value.String(), kind, grace, reclaim}
}

// A layoutGroup is layouts of a node with which writable layers have the thresholds
// of the same other filesystem.
type layoutGroup struct {
	layout eviction.Layout
	names  []string
	from   string
}

// layoutGroups are those that the node may have: all, unless the configuration tells.
func layoutGroups(cfg *config.Config) []layoutGroup {
	onNodefs := layoutGroup{layout: eviction.LayoutShared, from: "nodefs"}
	onImagefs := layoutGroup{layout: eviction.LayoutImageFs, from: "imagefs"}
	for _, l := range cfg.PossibleLayouts() {
		if l == eviction.LayoutImageFs {
			onImagefs.names = append(onImagefs.names, l.String())
		} else {
			onNodefs.names = append(onNodefs.names, l.String())
		}
	}
	return slices.DeleteFunc([]layoutGroup{onNodefs, onImagefs}, func(g layoutGroup) bool { return len(g.names) == 0 })
}

// derivedTable shows the thresholds of writable layers, which nobody configures,
// as they will be once the node's filesystems are known. It is empty where there
// are none.
func derivedTable(cfg *config.Config, thresholds []policy.Threshold) []byte {
	heading := append(thresholdHeading("DERIVED"), "LAYOUT OF THE NODE")
	var rows [][]string
	for _, g := range layoutGroups(cfg) {
		for _, t := range policy.WithContainerFs(thresholds, g.layout).Derived {
			if b, _ := eviction.Builtin(t.Signal); b.Filesystem == eviction.ContainerFs {
				rows = append(rows, append(thresholdRow(t), strings.Join(g.names, ", ")))
			}
		}
	}
	return furtherTable(heading, rows)
}

// warnDropped tells of configured thresholds that other ones take the place of.
func warnDropped(cfg *config.Config, thresholds []policy.Threshold) []string {
	var warnings []string
	for _, g := range layoutGroups(cfg) {
		for _, t := range policy.WithContainerFs(thresholds, g.layout).Dropped {
			warnings = append(warnings, fmt.Sprintf("%s does not stand where the layout is %s: containerfs has the thresholds of %s there, as in the kubelet",
				t, strings.Join(g.names, " or "), g.from))
		}
	}
	return warnings
}

// ownTable names the signals that are no signals of the kubelet: what they are is
// only known when their plugins run. It is empty where there are none.
func ownTable(cfg *config.Config) []byte {
	var rows [][]string
	for _, s := range cfg.CustomSignals() {
		rows = append(rows, []string{string(s), "from the plugin that brings it; without one its thresholds have no effect"})
	}
	return furtherTable([]string{"OWN SIGNAL", "UNIT, RESOURCE AND CONDITION"}, rows)
}

// furtherTable is a table that stands below another one, if there is anything in it.
func furtherTable(heading []string, rows [][]string) []byte {
	if len(rows) == 0 {
		return nil
	}
	return append([]byte("\n"), table(slices.Concat([][]string{heading}, rows))...)
}
