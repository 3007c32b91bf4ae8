package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/host/internal/why/whatif"
	"github.com/evictd/evictd/shared/eviction"
)

// scenarioEndings lists the extensions of the files that replay reads.
var scenarioEndings = []string{".json", ".yaml", ".yml"}

func newReplay() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay FILE|RECORD|POD...",
		Short: "Show what evictd would decide in a scenario",
		Long: "Take scenarios, or traces of decisions that were recorded, through the eviction manager and its\n" +
			"plugins, and tell step by step what is observed, concluded and done. No node is looked at and no\n" +
			"pod is killed: pods, figures and time are the scenario's. Reclaim steps of custom plugins are\n" +
			"shown, and only run with --reclaim. Files are JSON or YAML, also as .gz; others are passed over.\n" +
			"Decisions of this node are named by the ids of their records, their pods, or --since, and the last\n" +
			"line says who would have gone with these plugins, and the thresholds of --with. Needs no root but for\n" +
			"the records.",
	}
	var r replayer
	names := recordNames{Resolver: find.Resolver{Dir: addRecordsDir(cmd)}}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if names.since > 0 {
			return nil
		}
		return cobra.MinimumNArgs(1)(cmd, args)
	}
	flags := cmd.Flags()
	asJSON := flags.Bool("json", false, "print the decisions as JSON, one object a line")
	check := flags.Bool("check", false, "compare with what was recorded, exit with 1 if anything differs that counts")
	flags.StringVar(&r.pluginDir, "plugin-dir", "", "directory of plugin executables, which come before those beside this program, or in "+config.Default().PluginDir)
	flags.BoolVar(&r.reclaim, "reclaim", false, "also run the reclaim steps of custom plugins: they free what they free on this machine")
	flags.Var((*find.Age)(&names.since), "since", "also the evictions that this node has recorded in the last so long, such as 36h or 7d")
	flags.StringVar(&names.with, "with", "", "configuration whose thresholds and plugins' configuration take the place of those that were recorded")
	flags.StringVar(&r.compatibility, "compatibility", "", "version of Kubernetes whose kubelet decides alike, for scenarios that do not say: 1.35, 1.36, 1.37 or 1.38 (default the newest)")
	level := flags.String("log-level", "", `show the manager's log from this level on: "debug", "info", "warn" or "error"`)
	cmd.MarkFlagsMutuallyExclusive("json", "check")
	completeNames(cmd, names.Dir, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.builtin = pluginsBeside(os.Executable)
		r.pluginDir = cmp.Or(r.pluginDir, r.builtin)
		if err := inspect.CheckPluginDir(r.pluginDir); err != nil {
			return fmt.Errorf("--plugin-dir: %q: %w", r.pluginDir, err)
		}
		r.log, r.say = slog.New(slog.DiscardHandler), sayOnce(cmd.ErrOrStderr())
		if *level != "" {
			var from slog.Level
			if err := from.UnmarshalText([]byte(*level)); err != nil {
				return fmt.Errorf(`--log-level: %q: want "debug", "info", "warn" or "error"`, *level)
			}
			r.log, r.say = slog.New(slog.NewJSONHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: from})), func(string) {}
		}
		names.Say = sayOnce(cmd.ErrOrStderr())
		args, err := names.resolve(args)
		if err != nil {
			return err
		}
		r.read = names.read
		files, passedOver := scenarioFiles(args)
		for _, file := range passedOver {
			program.Say(cmd.ErrOrStderr(), fmt.Sprintf("passed over: %s: want a name that ends in %s, or with .gz after that", file, strings.Join(scenarioEndings, ", ")))
		}
		if len(files) == 0 {
			return errors.New("no scenario given")
		}
		ctx, stop := untilInterrupted(cmd.Context())
		defer stop()
		out := cmd.OutOrStdout()
		switch {
		case *check:
			return checkReplays(ctx, out, &r, files)
		case *asJSON:
			return showReplays(ctx, out, &r, files, decisionsLine)
		default:
			return showReplays(ctx, out, &r, files, timelineOf)
		}
	}
	return cmd
}

// pluginsBeside returns the directory "plugins" beside this program, as in a build, else the installed one.
func pluginsBeside(executable func() (string, error)) string {
	if self, err := executable(); err == nil {
		dir := filepath.Join(filepath.Dir(self), "plugins")
		if inspect.CheckPluginDir(dir) == nil {
			return dir
		}
	}
	return config.Default().PluginDir
}

// scenarioFiles selects scenarios by their file names, so that a whole directory can be given.
func scenarioFiles(args []string) (files, passedOver []string) {
	for _, file := range args {
		if slices.Contains(scenarioEndings, filepath.Ext(strings.TrimSuffix(file, ".gz"))) {
			files = append(files, file)
		} else {
			passedOver = append(passedOver, file)
		}
	}
	return files, passedOver
}

// untilInterrupted returns a context that the first signal cancels; a second one ends the program.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(parent, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// checkReplays prints the first difference of each failing trace, evictd's behaviour in those that
// need not match, and the number of each.
func checkReplays(ctx context.Context, out io.Writer, r *replayer, files []string) error {
	counts := map[replay.Result]int{}
	err := r.each(ctx, files, func(done replayed) error {
		v := replay.Check(done.trace, done.replay, done.err)
		counts[v.Result]++
		return command.Written(out.Write(verdictText(done, v)))
	})
	if err != nil {
		return err
	}
	total := fmt.Sprintf("%d passed, %d failed, %d skipped\n", counts[replay.Passed], counts[replay.Failed], counts[replay.Skipped])
	if err := command.Written(io.WriteString(out, total)); err != nil {
		return err
	}
	if counts[replay.Failed] > 0 {
		return command.Failure{Err: errors.New("decisions differ from what was recorded")}
	}
	return nil
}

func verdictText(done replayed, v replay.Verdict) []byte {
	var b bytes.Buffer
	switch v.Result {
	case replay.Passed:
		return nil
	case replay.Failed:
		b.WriteString("FAIL " + done.file + "\n")
	case replay.Skipped:
		b.WriteString("SKIP " + done.file + " (" + printable.Text(strings.Join(done.trace.Scenario.Quirks, ", ")) + ")\n")
	}
	for line := range strings.Lines(v.Why) {
		b.WriteString("  " + printable.Text(strings.TrimSpace(strings.TrimPrefix(line, done.file+": "))) + "\n")
	}
	return b.Bytes()
}

func decisionsLine(done replayed) ([]byte, error) {
	var b bytes.Buffer
	err := printJSONLines(&b, done.replay.Decisions)
	_, noVerdict := verdict(done)
	return b.Bytes(), errors.Join(err, noVerdict)
}

func timelineOf(done replayed) ([]byte, error) {
	text := append(replay.Timeline(done.trace, done.replay), '\n')
	last, err := verdict(done)
	if err != nil {
		last = err.Error()
	}
	if last != "" {
		text = fmt.Appendf(text, "%s\n\n", printable.ClipText(last))
	}
	return text, err
}

// verdict returns which pod is evicted in the replay of a record, empty for a scenario. The error
// says why that is unknown.
func verdict(done replayed) (string, error) {
	s, r := done.trace.Scenario, done.replay
	if s.Record == nil {
		return "", nil
	}
	text, _ := replay.OtherVictim(done.trace, r)
	c, err := replay.Configuration(s)
	if err != nil {
		return "", fmt.Errorf("%s: %s", s.Record.ID, text)
	}
	thresholds, _ := c.Thresholds() // already validated
	signal := eviction.Signal(s.Record.Head().Signal)
	for i, step := range r.Decisions.Steps {
		why, o := step.Error, r.Passes[i].Observation(signal)
		switch {
		case why != "":
		case o == nil && slices.ContainsFunc(thresholds, func(t policy.Threshold) bool { return t.Signal == signal }):
			why = fmt.Sprintf("no running plugin observes %s", signal)
		case o != nil && o.State == decision.StateUnknown:
			why = fmt.Sprintf("%s: %s", signal, cmp.Or(o.Err, o.State))
		}
		if why != "" {
			return "", fmt.Errorf("%s: not known which pod goes, step %d: %s", s.Record.ID, i, why)
		}
	}
	if s.Changed {
		text = otherwise(s.Record, thresholds, text)
	}
	return s.Record.ID + ": " + text, nil
}

// otherwise adds to text, which is of the moment of the decision, when thresholds would have been met by
// the record's samples. If that was before, another moment counts.
func otherwise(r *decision.Decision, thresholds []policy.Threshold, text string) string {
	e, err := whatif.Met(r, thresholds)
	switch {
	case err != nil:
		return text + "; " + err.Error()
	case e.Threshold == "":
		return text + ": " + tell.WhatIf(&e)
	case e.Seconds > 0:
		return tell.WhatIf(&e)
	}
	return text
}
