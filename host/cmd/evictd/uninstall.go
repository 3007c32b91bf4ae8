package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/nodestatus"
	"github.com/evictd/evictd/host/internal/parts"
)

func newUninstallNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "uninstall-node",
		Short: "Take conditions and taints of evictd from this node's object",
		Long: "Take from the object of this node in the API server what evictd has written there with nodeConditions:\n" +
			"the conditions and taints below evictd.io/. Stop evictd first. What it reads of the configuration is mode,\n" +
			"nodeName and kubeconfig.",
		Args: cobra.NoArgs,
	}
	flags := config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.LoadDaemon()
		if err != nil {
			return err
		}
		if err := uninstallNode(cmd.Context(), &cfg); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}

// uninstallNode removes everything that evictd ever wrote to this node's object: its conditions and
// taints. The evicted pods keep what was written to them.
func uninstallNode(ctx context.Context, c *config.Config) error {
	if c.Mode != config.ModeKubernetes {
		return fmt.Errorf("mode: %q: nothing is written to the node, want %q", c.Mode, config.ModeKubernetes)
	}
	api, err := parts.API(c, version, slog.New(slog.DiscardHandler))
	if err != nil {
		return fmt.Errorf("kubeconfig: %q: %w", c.Kubeconfig, err)
	}
	return nodestatus.Hold(ctx, api, nil, false)
}
