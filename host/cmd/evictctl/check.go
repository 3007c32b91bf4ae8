package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/doctor"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/record/format"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "check",
		SuggestFor: []string{"doctor"},
		Short:      "Check configuration and node, print the thresholds in force",
		Long: "Read the configuration as run would. Print the thresholds in force, one a line, what those of\n" +
			"writable layers will be by the layout of the node's filesystems, and which signals a plugin has to\n" +
			"bring, or all that is wrong; then try on this node what run needs of it: directories, addresses,\n" +
			"container runtime, capacity, cgroups and directories of pods, API server or manifests, plugins. The\n" +
			"plugins are started, confined as by run, asked for the signals once, and ended; --start-plugins=false\n" +
			"starts nothing. Exit code 2 is a wrong configuration, 1 a node that is not ready for it. docs/operations.md\n" +
			"has a table of what is tried, and where to read on. --all also describes the node: kernel and its newer\n" +
			"features, cgroups, container runtime, layout of the filesystems, and which plugin observes each signal, and how.",
		Args: cobra.NoArgs,
	}
	start := cmd.Flags().Bool("start-plugins", true, "start the plugins, to see whether they take their configuration and observe")
	all := cmd.Flags().Bool("all", false, "print also what this node is, and how each signal is observed")
	asJSON := cmd.Flags().Bool("json", false, "print all that is said as one JSON object")
	kubelet := cmd.Flags().String("beside-kubelet", "", "configuration of the kubelet on this node, to compare with, or running (default besideKubelet)")
	dropIns := cmd.Flags().String("beside-kubelet-dir", "", "directory of its drop-ins (default besideKubeletDir)")
	runWith(cmd, func(cmd *cobra.Command, cfg *config.Config) error {
		cfg.BesideKubelet, cfg.BesideKubeletDir = cmp.Or(*kubelet, cfg.BesideKubelet), cmp.Or(*dropIns, cfg.BesideKubeletDir)
		ctx, stop := untilInterrupted(cmd.Context())
		defer stop()
		r, err := examine(ctx, cfg, *start, *kubelet+*dropIns != "")
		if err != nil {
			return err
		}
		if *all {
			d := doctor.Diagnose(ctx, cfg)
			r.Diagnosis = &d
		}
		if *asJSON {
			err = printJSON(cmd.OutOrStdout(), r)
		} else {
			err = command.Written(cmd.OutOrStdout().Write(r.tables(cfg.CustomSignals())))
		}
		if err != nil {
			return err
		}
		for _, w := range r.Warnings {
			program.Say(cmd.ErrOrStderr(), "warning: "+w)
		}
		if len(r.Errors) > 0 {
			return command.Failure{Err: errors.New(strings.Join(r.Errors, "\n"))}
		}
		return nil
	})
	return cmd
}

// A checkReport holds all that check says.
type checkReport struct {
	Thresholds []decision.Threshold `json:"thresholds"`
	// Diagnosis is nil without --all.
	*doctor.Diagnosis

	Beside   *inspect.Beside `json:"beside,omitempty"`
	Errors   []string        `json:"errors,omitempty"`
	Warnings []string        `json:"warnings,omitempty"`
	// Advice is for a node that works as it is. It is no warning, which would be for the operator to clear.
	Advice []string `json:"advice,omitempty"`

	// derived has the rows of writable layers' thresholds.
	derived [][]string
}

// examine returns the report on this node with cfg, or what is wrong with cfg or the kubelet's configuration. A kubelet's
// file that is not there is a warning, as in the daemon's log, unless the command line asked for it: the chart configures
// a path that not every node has.
func examine(ctx context.Context, cfg *config.Config, startPlugins, asked bool) (*checkReport, error) {
	thresholds, err := cfg.Thresholds()
	if err != nil {
		return nil, err
	}
	b, missing := inspect.CheckBeside(ctx, cfg, store.Falls)
	if missing != nil && (asked || !errors.Is(missing, fs.ErrNotExist)) {
		return nil, missing
	}
	found := inspect.Run(ctx, inspect.Options{Config: cfg, Version: program.Version, StartPlugins: startPlugins, Falls: store.Falls, Holder: store.Holder})
	errs, ofDaemon := checkRunning(ctx, cfg, found.Texts(inspect.Fatal, inspect.Error))
	derived, dropped := ofWritableLayers(cfg, thresholds)
	found, fixes := besideOnce(b, found)
	warnings := slices.Concat(cfg.Warnings(), dropped, found.Texts(inspect.Warning), fixes, ofDaemon)
	return &checkReport{Thresholds: listed(thresholds), Beside: b, Errors: errs, Warnings: warnings, Advice: found.Texts(inspect.Advice), derived: derived}, nil
}

// besideOnce returns the findings without those that b has, and one warning that counts what b has to fix.
func besideOnce(b *inspect.Beside, found inspect.Findings) (others inspect.Findings, warning []string) {
	if b == nil {
		return found, nil
	}
	fixes := 0
	for _, f := range b.Findings {
		if f.Fix {
			fixes++
		}
	}
	if fixes > 0 {
		warning = []string{fmt.Sprintf("besideKubelet: %d to fix, see above", fixes)}
	}
	return slices.DeleteFunc(found, func(f inspect.Finding) bool { return f.Probe == inspect.KubeletConfiguration }), warning
}

// tables formats r, with the signals that only plugins define.
func (r *checkReport) tables(custom []eviction.Signal) []byte {
	rows := [][]string{thresholdHeading("SIGNAL")}
	for _, t := range r.Thresholds {
		rows = append(rows, thresholdRow(t))
	}
	var own, advice [][]string
	for _, s := range custom {
		own = append(own, []string{string(s), "from the plugin that brings it; without one its thresholds have no effect"})
	}
	for _, text := range r.Advice {
		advice = append(advice, []string{text})
	}
	return slices.Concat(tell.Table(rows),
		tell.FurtherTable(append(thresholdHeading("DERIVED"), "LAYOUT OF THE NODE"), r.derived),
		tell.FurtherTable([]string{"CUSTOM SIGNAL", "UNIT, RESOURCE AND CONDITION"}, own),
		diagnosisTables(r.Diagnosis), besideTable(r.Beside), tell.FurtherTable([]string{"ADVICE"}, advice))
}

func listed(thresholds []policy.Threshold) []decision.Threshold {
	return decision.Thresholds(thresholds, &policy.Assessment{}, time.Time{})
}

func thresholdHeading(first string) []string {
	return []string{first, "THRESHOLD", "KIND", "GRACE PERIOD", "MINIMUM RECLAIM"}
}

func thresholdRow(t decision.Threshold) []string {
	kind := "hard"
	if !t.Hard() {
		kind = "soft"
	}
	return []string{string(t.Signal), t.Value, kind, t.GracePeriod, t.MinReclaim}
}

// ofWritableLayers returns rows for the thresholds of writable layers, which follow from those of another filesystem by
// the possible layouts of the node, and warnings of the configured thresholds that they replace.
func ofWritableLayers(cfg *config.Config, thresholds []policy.Threshold) (rows [][]string, warnings []string) {
	for _, imagefs := range []bool{false, true} {
		from, layout := "nodefs", eviction.LayoutShared
		if imagefs {
			from, layout = "imagefs", eviction.LayoutImageFs
		}
		var names []string
		for _, l := range cfg.PossibleLayouts() {
			if (l == eviction.LayoutImageFs) == imagefs {
				names = append(names, l.String())
			}
		}
		if names == nil {
			continue
		}
		c := policy.WithContainerFs(thresholds, layout)
		for _, t := range listed(c.Derived) {
			if b, _ := eviction.Builtin(t.Signal); b.Filesystem == eviction.ContainerFs {
				rows = append(rows, append(thresholdRow(t), strings.Join(names, ", ")))
			}
		}
		for _, t := range c.Dropped {
			warnings = append(warnings, fmt.Sprintf("%s does not stand where the layout is %s: containerfs has the thresholds of %s there, as in the kubelet", t, strings.Join(names, " or "), from))
		}
	}
	return rows, warnings
}

func diagnosisTables(d *doctor.Diagnosis) []byte {
	if d == nil {
		return nil
	}
	var node, kernel, signals [][]string
	for _, f := range d.Node {
		node = append(node, []string{f.Name, f.Value, f.Detail})
	}
	for _, f := range d.Features {
		there := "yes"
		if !f.There {
			there = "no"
		}
		kernel = append(kernel, []string{f.Name, there, f.Detail, f.Gives})
	}
	for _, s := range d.Signals {
		row := []string{string(s.Signal), s.By, s.How, "", ""}
		if s.Available != nil {
			row[3], row[4] = format.Amount(nil, s.Signal, *s.Available), format.Amount(nil, s.Signal, *s.Capacity)
		}
		signals = append(signals, row)
	}
	return slices.Concat(tell.FurtherTable([]string{"NODE", "VALUE", "SOURCE"}, node),
		tell.FurtherTable([]string{"KERNEL FEATURE", "AVAILABLE", "DETAIL", "USE"}, kernel),
		tell.FurtherTable([]string{"SIGNAL", "OBSERVED BY", "HOW", "AVAILABLE", "CAPACITY"}, signals))
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
	return append(out, b.Settings.YAML()...)
}
