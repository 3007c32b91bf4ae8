package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/why/tell"
	"github.com/evictd/evictd/shared/eviction"
)

const (
	// leastInterval bounds how often the daemon is asked.
	leastInterval = 200 * time.Millisecond
	// evictionsShown bounds the evictions shown, the last ones.
	evictionsShown = 5
)

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
		return failed(repeat(ctx, cmd.OutOrStdout(), *interval, *times, look))
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

// A view decodes the fields of the daemon's status that are shown.
type view struct {
	Version    string                 `json:"version"`
	NodeName   string                 `json:"nodeName"`
	DryRun     bool                   `json:"dryRun"`
	NotReady   string                 `json:"notReady"`
	Time       time.Time              `json:"time"`
	Conditions []string               `json:"conditions"`
	Thresholds []decision.Threshold   `json:"thresholds"`
	Signals    []observe.SignalStatus `json:"signals"`
	Evictions  []struct {
		Time   time.Time `json:"time"`
		Pod    string    `json:"pod"`
		Signal string    `json:"signal"`
		State  string    `json:"state"`
	} `json:"evictions"`
	Plugins []struct {
		Name, State, Version, Reason string
		Restarts                     int
	} `json:"plugins"`
}

// seen returns the current state of the daemon as text, with the ranking for s.
func seen(ctx context.Context, runDir string, s eviction.Signal) ([]byte, error) {
	var now view
	if err := ask(ctx, runDir, "/status", statusTimeout, &now); err != nil {
		return nil, err
	}
	ranking, err := askRanking(ctx, runDir, s)
	return now.text(time.Now(), ranking, err), nil
}

// text formats the view, with the order in which pods would be evicted, or why there is none.
func (s *view) text(now time.Time, ranking *decision.Decision, noRanking error) []byte {
	conditions := cmp.Or(strings.Join(s.Conditions, ", "), "none")
	head := fmt.Sprintf("%s  evictd %s  %s  conditions: %s", s.NodeName, s.Version, now.UTC().Format(time.TimeOnly), conditions)
	if s.DryRun {
		head += "  dry run"
	}
	if s.NotReady != "" {
		head += "\nNOT READY: " + s.NotReady
	}
	out := [][]byte{[]byte(head + "\n\n"), tell.Table(s.thresholds(now))}
	switch {
	case errors.Is(noRanking, context.Canceled):
	case noRanking != nil:
		out = append(out, []byte("\nwho would go is not known: "+noRanking.Error()+"\n"))
	default:
		out = append(out, []byte("\n"), tell.Order(ranking))
	}
	evictions := [][]string{}
	for _, e := range slices.Backward(s.Evictions[max(0, len(s.Evictions)-evictionsShown):]) {
		evictions = append(evictions, []string{e.Time.UTC().Format(time.DateTime), e.Pod, e.Signal, e.State})
	}
	plugins := [][]string{}
	for _, p := range s.Plugins {
		plugins = append(plugins, []string{p.Name, p.State, p.Version, fmt.Sprint(p.Restarts), p.Reason})
	}
	out = append(out, tell.FurtherTable([]string{"EVICTED", "POD", "SIGNAL", "STATE"}, evictions), tell.FurtherTable([]string{"PLUGIN", "STATE", "VERSION", "RESTARTS", "WHY"}, plugins))
	return slices.Concat(out...)
}

func (s *view) thresholds(now time.Time) [][]string {
	rows := [][]string{{"SIGNAL", "AVAILABLE", "OF", "THRESHOLD", "GRACE PERIOD", "MET FOR", "SEEN"}}
	for _, t := range s.Thresholds {
		row := []string{string(t.Signal), "", "", "<" + t.Value, t.GracePeriod, "", ""}
		if at := slices.IndexFunc(s.Signals, func(o observe.SignalStatus) bool { return o.Signal == t.Signal }); at >= 0 {
			o := &s.Signals[at]
			row[1], row[6] = o.State, ago(now, o.Time)
			if o.State == decision.StateObserved {
				row[1], row[2] = tell.Amount(t.Custom, o.Signal, o.Available), tell.Amount(t.Custom, o.Signal, o.Capacity)
			}
		}
		if t.Since != nil {
			row[5] = max(0, now.Sub(*t.Since)).Round(time.Second).String()
		}
		rows = append(rows, row)
	}
	return rows
}

func ago(now, then time.Time) string {
	if then.IsZero() {
		return ""
	}
	return max(0, now.Sub(then)).Round(time.Second).String() + " ago"
}
