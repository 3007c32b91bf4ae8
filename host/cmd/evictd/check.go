package main

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/host/internal/config"
)

func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check configuration and node, print the thresholds in force",
		Long: "Read the configuration as run would. Print the thresholds in force, one a line, what those of\n" +
			"writable layers will be by the layout of the node's filesystems, and which signals a plugin has to\n" +
			"bring, or all that is wrong; then say whether the container runtime is there, whether run would start\n" +
			"and not refuse a plugin, and what is wrong with pod manifests. Plugins that have a configuration of\n" +
			"their own are started, confined as run would, told it, and ended; --start-plugins=false starts nothing.\n" +
			"Exit code 2 is a wrong configuration, 1 a node that is not ready for it.",
		Args: cobra.NoArgs,
	}
	flags := config.AddFlags(cmd.Flags())
	start := cmd.Flags().Bool("start-plugins", true, "start the plugins that have a configuration, to see whether they take it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.LoadDaemon()
		if err != nil {
			return err
		}
		thresholds, err := cfg.Thresholds()
		if err != nil {
			return err
		}
		tables := slices.Concat(thresholdTable(thresholds), derivedTable(&cfg, thresholds), ownTable(&cfg))
		if err := written(cmd.OutOrStdout().Write(tables)); err != nil {
			return err
		}
		errs, warnings := host.Check(cmd.Context(), &cfg)
		if *start {
			ctx, stop := untilInterrupted(cmd.Context())
			errs = append(errs, host.TryPlugins(ctx, &cfg, version)...)
			stop()
		}
		for _, w := range slices.Concat(cfg.Warnings(), warnDropped(&cfg, thresholds), warnings) {
			say(cmd.ErrOrStderr(), "warning: "+w)
		}
		if err := errors.Join(errs...); err != nil {
			return failure{err}
		}
		return nil
	}
	return cmd
}
