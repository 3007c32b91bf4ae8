package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/policy"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration and node, print the thresholds in force",
		Long: "Read the configuration as run would. Print the thresholds in force, one a line, or all that is\n" +
			"wrong; then say whether plugin directory and container runtime are there. Exit code 2 is a wrong\n" +
			"configuration, 1 a node that is not ready for it.",
		Args: cobra.NoArgs,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.Load()
		if err != nil {
			return err
		}
		thresholds, err := cfg.Thresholds()
		if err != nil {
			return err
		}
		if err := written(cmd.OutOrStdout().Write(table(thresholds))); err != nil {
			return err
		}
		for _, w := range append(cfg.Warnings(), warnNode(&cfg)...) {
			fmt.Fprintf(cmd.ErrOrStderr(), "evictd: warning: %s\n", w)
		}
		if err := errors.Join(checkNode(cmd.Context(), &cfg)...); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}

// table is one line per threshold below a heading.
func table(thresholds []policy.Threshold) []byte {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SIGNAL\tTHRESHOLD\tKIND\tGRACE PERIOD\tMINIMUM RECLAIM")
	for _, t := range thresholds {
		kind, grace, reclaim := "hard", "", ""
		if !t.Hard() {
			kind, grace = "soft", t.GracePeriod.String()
		}
		if t.MinReclaim != nil {
			reclaim = t.MinReclaim.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Signal, t.Value, kind, cmp.Or(grace, "-"), cmp.Or(reclaim, "-"))
	}
	w.Flush() //nolint:errcheck // it writes to memory
	return b.Bytes()
}
