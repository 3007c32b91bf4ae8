package main

import (
	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/config"
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
		if err := host.UninstallNode(cmd.Context(), &cfg); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}
