package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/cluster/nodestatus"
	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/parts"
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
	runWith(cmd, func(cmd *cobra.Command, cfg *config.Config) error {
		return command.Failed(uninstallNode(cmd.Context(), cfg))
	})
	return cmd
}

func newUninstallCluster() *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall-cluster NAMESPACE/DAEMONSET",
		Short: "Delete the DaemonSet of evictd, and take its conditions and taints from all nodes",
		Long: "Delete the DaemonSet of evictd, wait until its pods are gone, and then take the conditions and taints below\n" +
			"evictd.io/ from all nodes. The chart runs it before an uninstallation. It uses the ServiceAccount of its pod.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, name, ok := strings.Cut(args[0], "/")
			if !ok || namespace == "" || name == "" {
				return fmt.Errorf("%q, want NAMESPACE/DAEMONSET", args[0])
			}
			return command.Failed(uninstallCluster(cmd.Context(), namespace, name))
		},
	}
}

// uninstallTimeout bounds the end of all pods of evictd and the writes to all nodes.
const uninstallTimeout = 4 * time.Minute

func uninstallCluster(ctx context.Context, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, uninstallTimeout)
	defer cancel()
	api, err := parts.API(&config.Config{}, version, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := api.DeleteDaemonSet(ctx, namespace, name); err != nil {
		return err
	}
	return nodestatus.Clear(ctx, api.EachNode, func(node string) nodestatus.API { return api.Of(node) })
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
