package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/inspect"
	"github.com/evictd/evictd/host/internal/why/replay"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

// rankingTimeout bounds a ranking, which measures pods.
const rankingTimeout = 15 * time.Second

func newRank() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rank",
		Short: "Show in which order pods would go now",
		Long: "Ask the running evictd in which order it would have pods go for a signal now, by whom and why. Pods are measured\n" +
			"for it, and no pod goes. With --with the order is that of plugins which need not be in charge.",
		Args: cobra.NoArgs,
	}
	runDir := addRunDir(cmd)
	signal := cmd.Flags().String("signal", string(eviction.MemoryAvailable), "the signal whose threshold would be acted on")
	asJSON := cmd.Flags().Bool("json", false, "print the record of the ranking as JSON")
	with := cmd.Flags().String("with", "", "directory of plugin executables that put the pods in order, as evictctl replay --plugin-dir")
	completeSignal(cmd, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := runDir()
		if err = errors.Join(err, checkWith(*with)); err != nil {
			return err
		}
		ranking, err := askRanking(cmd.Context(), at, eviction.Signal(*signal))
		if err != nil {
			return command.Failure{Err: err}
		}
		if *with != "" {
			if ranking, err = rankWith(cmd.Context(), *with, ranking, sayOnce(cmd.ErrOrStderr())); err != nil {
				return command.Failure{Err: err}
			}
		}
		if *asJSON {
			return printJSONLines(cmd.OutOrStdout(), ranking)
		}
		return command.Written(cmd.OutOrStdout().Write(tell.Order(ranking)))
	}
	return cmd
}

// checkWith returns an error for a directory of --with that has no plugin.
func checkWith(dir string) error {
	if dir == "" {
		return nil
	}
	if err := inspect.CheckPluginDir(dir); err != nil {
		return fmt.Errorf("--with: %q: %w", dir, err)
	}
	return nil
}

// rankWith returns the ranking by the plugins in a directory, together with the built-in ones.
func rankWith(ctx context.Context, dir string, ranking *decision.Decision, say func(string)) (*decision.Decision, error) {
	trace, err := replay.FromRecord(ranking)
	if err != nil {
		return nil, err
	}
	ctx, stop := untilInterrupted(ctx)
	defer stop()
	r := replayer{pluginDir: dir, builtin: pluginsBeside(os.Executable), log: slog.New(slog.DiscardHandler), say: say}
	done, err := r.run(ctx, trace.Scenario)
	if err != nil {
		return nil, err
	}
	if _, err := verdict(replayed{trace: trace, replay: done}); err != nil {
		return nil, err
	}
	last := &done.Passes[len(done.Passes)-1].Decision
	last.ID, last.Kind, last.Time, last.Node, last.Evictd = ranking.ID, ranking.Kind, ranking.Time, ranking.Node, ranking.Evictd
	return last, nil
}

func askRanking(ctx context.Context, runDir string, s eviction.Signal) (*decision.Decision, error) {
	var answer json.RawMessage
	if err := ask(ctx, runDir, "/ranking?signal="+url.QueryEscape(string(s)), rankingTimeout, &answer); err != nil {
		return nil, err
	}
	ranking, err := decision.Decode(answer)
	if err != nil {
		return nil, fmt.Errorf("ranking by the evictd in %s: %w", runDir, err)
	}
	return ranking, nil
}

func explainNow(cmd *cobra.Command, runDir func() (string, error), asJSON bool) error {
	at, err := runDir()
	if err != nil {
		return err
	}
	status, err := askPlugins(cmd.Context(), at)
	if err != nil {
		return command.Failure{Err: err}
	}
	var signals []eviction.Signal
	for _, t := range status.Thresholds {
		if !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	var rankings []*decision.Decision
	for _, s := range signals {
		ranking, err := askRanking(cmd.Context(), at, s)
		if err != nil {
			return command.Failure{Err: err}
		}
		rankings = append(rankings, ranking)
	}
	if !asJSON {
		return command.Written(cmd.OutOrStdout().Write(tell.Now(rankings)))
	}
	return printJSONLines(cmd.OutOrStdout(), rankings...)
}
