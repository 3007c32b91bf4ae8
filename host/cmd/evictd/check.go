package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration and node, print the thresholds in force",
		Long: "Read the configuration as run would. Print the thresholds in force, one a line, what those of\n" +
			"writable layers will be by the layout of the node's filesystems, and which signals a plugin has to\n" +
			"bring, or all that is wrong; then try on this node what run needs of it: directories, addresses,\n" +
			"container runtime, capacity, cgroups and directories of pods, API server or manifests, plugins. The\n" +
			"plugins are started, confined as by run, asked for the signals once, and ended; --start-plugins=false\n" +
			"starts nothing. Exit code 2 is a wrong configuration, 1 a node that is not ready for it. docs/operations.md\n" +
			"has a table of what is tried, and where to read on.",
		Args: cobra.NoArgs,
	}
	start := cmd.Flags().Bool("start-plugins", true, "start the plugins, to see whether they take their configuration and observe")
	asJSON := cmd.Flags().Bool("json", false, "print all that is said as one JSON object")
	runWith(cmd, func(cmd *cobra.Command, cfg *config.Config) error {
		thresholds, err := cfg.Thresholds()
		if err != nil {
			return err
		}
		beside, missing := inspect.CheckBeside(cmd.Context(), cfg, store.Falls)
		if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
		if !*asJSON {
			tables := slices.Concat(thresholdTable(thresholds), derivedTable(cfg, thresholds), ownTable(cfg), besideTable(beside))
			if err := written(cmd.OutOrStdout().Write(tables)); err != nil {
				return err
			}
		}
		ctx, stop := untilInterrupted(cmd.Context())
		found := inspect.Run(ctx, inspect.Options{Config: cfg, Version: version, StartPlugins: *start, Falls: store.Falls})
		stop()
		errs, ofDaemon := checkRunning(cmd.Context(), cfg, found.Errors())
		warnings := slices.Concat(cfg.Warnings(), warnDropped(cfg, thresholds), found.Warnings(), ofDaemon)
		if missing != nil { // of which a daemon warns
			errs = append(errs, missing)
			warnings = slices.DeleteFunc(warnings, func(w string) bool { return w == missing.Error() })
		}
		if *asJSON {
			err = writeJSON(cmd.OutOrStdout(), thresholds, beside, errs, warnings, found.Advice())
		} else {
			err = written(cmd.OutOrStdout().Write(adviceTable(found)))
		}
		if err != nil {
			return err
		}
		return conclude(cmd.ErrOrStderr(), errs, warnings)
	})
	return cmd
}

// adviceTable has a row for each advice. It is no warning, which would be for the operator to clear.
func adviceTable(found inspect.Findings) []byte {
	var rows [][]string
	for _, text := range found.Advice() {
		rows = append(rows, []string{text})
	}
	return tell.FurtherTable([]string{"ADVICE"}, rows)
}

func texts(errs []error) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func conclude(stderr io.Writer, errs []error, warnings []string) error {
	for _, w := range warnings {
		say(stderr, "warning: "+w)
	}
	return failed(errors.Join(errs...))
}

func thresholdTable(thresholds []policy.Threshold) []byte {
	rows := [][]string{thresholdHeading("SIGNAL")}
	for _, t := range thresholds {
		rows = append(rows, thresholdRow(t))
	}
	return tell.Table(rows)
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

// A layoutGroup holds layouts in which writable layers share the thresholds of one other filesystem.
type layoutGroup struct {
	layout eviction.Layout
	names  []string
	from   string
}

// layoutGroups returns the possible layouts of the node: all, unless the configuration names one.
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

// derivedTable shows the thresholds of writable layers, which are not configured, as derived once
// the node's filesystems are known. It is empty if there are none.
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
	return tell.FurtherTable(heading, rows)
}

// warnDropped warns of configured thresholds that are replaced by others.
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

// ownTable lists the custom signals, which only their plugins define. It is empty if there are none.
func ownTable(cfg *config.Config) []byte {
	var rows [][]string
	for _, s := range cfg.CustomSignals() {
		rows = append(rows, []string{string(s), "from the plugin that brings it; without one its thresholds have no effect"})
	}
	return tell.FurtherTable([]string{"CUSTOM SIGNAL", "UNIT, RESOURCE AND CONDITION"}, rows)
}

// besideTable shows how evictd and the kubelet work together, and the recommended kubelet settings
// as a file. It is empty if there is no kubelet to compare with.
func besideTable(b *inspect.Beside) []byte {
	if b == nil {
		return nil
	}
	var rows [][]string
	last := ""
	for _, f := range b.Findings {
		signal, state := f.Signal, "note"
		if signal == last {
			signal = tell.Same
		}
		if f.Fix {
			state = "fix"
		}
		rows = append(rows, []string{signal, f.About, state, f.Text})
		last = f.Signal
	}
	out := tell.FurtherTable([]string{"BESIDE THE KUBELET", "ABOUT", "STATE", "WHAT FOLLOWS"}, rows)
	out = append(out, "\n# The kubelet's settings that go with this configuration:\n"...)
	return append(out, b.YAML...)
}

// checkThreshold is a line of thresholdTable.
type checkThreshold struct {
	Signal         string `json:"signal"`
	Value          string `json:"value"`
	Hard           bool   `json:"hard"`
	GracePeriod    string `json:"gracePeriod,omitempty"`
	MinimumReclaim string `json:"minimumReclaim,omitempty"`
}

// writeJSON prints the results of check as one JSON object.
func writeJSON(w io.Writer, thresholds []policy.Threshold, b *inspect.Beside, errs []error, warnings, advice []string) error {
	said := struct {
		Thresholds []checkThreshold `json:"thresholds"`
		Beside     *inspect.Beside  `json:"beside,omitempty"`
		Errors     []string         `json:"errors,omitempty"`
		Warnings   []string         `json:"warnings,omitempty"`
		Advice     []string         `json:"advice,omitempty"`
	}{[]checkThreshold{}, b, texts(errs), warnings, advice}
	for _, t := range thresholds {
		row := checkThreshold{Signal: string(t.Signal), Value: t.Value.String(), Hard: t.Hard()}
		if !t.Hard() {
			row.GracePeriod = t.GracePeriod.String()
		}
		if t.MinReclaim != nil {
			row.MinimumReclaim = t.MinReclaim.String()
		}
		said.Thresholds = append(said.Thresholds, row)
	}
	return printJSON(w, said)
}
