package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/why/tell/nodeview"
	"github.com/evictd/evictd/shared/eviction"
)

// leastInterval bounds how often the daemon is asked.
const leastInterval = 200 * time.Millisecond

func newObserve() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Watch the node as evictd sees it",
		Long: "Show, again and again, what the running evictd sees: signals against their thresholds and how long they are\n" +
			"met, conditions, the last evictions, plugins, and who would go first now. Ends with Ctrl-C.",
		Args: cobra.NoArgs,
	}
	runDir := addRunDir(cmd)
	interval := cmd.Flags().Duration("interval", time.Second, "how often to look")
	times := cmd.Flags().Int("times", 0, "how many times to look, 0 for until it is interrupted")
	signal := cmd.Flags().String("signal", string(eviction.MemoryAvailable), "the signal by which pods are put in order")
	asJSON := cmd.Flags().Bool("json", false, "print the daemon's status as JSON, one object a line")
	completeSignal(cmd, nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *interval < leastInterval {
			return fmt.Errorf("--interval: %v, want %v at least", *interval, leastInterval)
		}
		at, err := runDir()
		if err != nil {
			return err
		}
		ctx, stop := untilInterrupted(cmd.Context())
		defer stop()
		look := func() ([]byte, error) { return seen(ctx, at, eviction.Signal(*signal)) }
		if *asJSON {
			look = func() ([]byte, error) { return statusLine(ctx, at) }
		}
		return command.Failed(repeat(ctx, cmd.OutOrStdout(), *interval, *times, look))
	}
	return cmd
}

// repeat writes the result of look to out each interval, until ctx ends, look fails or it was
// called times times (0: no limit).
func repeat(ctx context.Context, out io.Writer, interval time.Duration, times int, look func() ([]byte, error)) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for n := 1; ; n++ {
		text, err := look()
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			_, err = out.Write(text)
		}
		if err != nil || n == times {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// statusLine fetches /status of the daemon and returns it as one line of JSON.
func statusLine(ctx context.Context, runDir string) ([]byte, error) {
	var status json.RawMessage
	if err := ask(ctx, runDir, "/status", statusTimeout, &status); err != nil {
		return nil, err
	}
	var line bytes.Buffer
	err := json.Compact(&line, status)
	return append(line.Bytes(), '\n'), err
}

// seen returns the current state of the daemon as text, with the ranking for s.
func seen(ctx context.Context, runDir string, s eviction.Signal) ([]byte, error) {
	var now nodeview.View
	if err := ask(ctx, runDir, "/status", statusTimeout, &now); err != nil {
		return nil, err
	}
	ranking, err := askRanking(ctx, runDir, s)
	return now.Text(time.Now(), ranking, err), nil
}
