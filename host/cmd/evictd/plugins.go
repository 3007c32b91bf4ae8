package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/why/tell/plugintable"
)

func newPlugins() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "Show the plugins of the running daemon",
		Long: "Ask the daemon that listens on listenAddress for its plugins, for each signal and capability who is in charge and why,\n" +
			"and which steps of reclaim run for a signal, in which order.\n" +
			"Takes the flags of run; with --listen-address no configuration is read.",
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newImage(), newInstall(), newScaffold())
	flags := config.AddFlags(cmd.Flags())
	asJSON := cmd.Flags().Bool("json", false, "print what the daemon said of its plugins")
	cmd.AddCommand(newVerify())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := daemonAddress(cmd.Flags().Lookup("listen-address"), flags)
		if err != nil {
			return err
		}
		said, err := askPlugins(cmd.Context(), at)
		if err != nil {
			return failure{err}
		}
		tables, err := plugintable.Text(&said)
		if err != nil {
			return failure{fmt.Errorf("status of %s: %w", at.address, err)}
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), said.Plugins)
		}
		return written(cmd.OutOrStdout().Write(tables))
	}
	return cmd
}

// daemonAddress returns where the daemon listens. If that is on the command line the configuration
// is not read: that may have become invalid since the daemon's start.
func daemonAddress(given *pflag.Flag, flags *config.Flags) (daemonAt, error) {
	if given.Changed {
		return daemonAt{address: given.Value.String()}, nil
	}
	cfg, err := flags.Load()
	if err != nil {
		return daemonAt{}, errors.Join(err, errors.New("with --listen-address the daemon is asked whatever the configuration says"))
	}
	return daemonAt{cfg.ListenAddress, cfg.RunDir}, nil
}

// askPlugins returns the status of the daemon's plugins.
func askPlugins(ctx context.Context, at daemonAt) (status plugintable.Status, err error) {
	err = ask(ctx, at, "/status", statusTimeout, &status)
	if err == nil && status.Plugins == nil {
		err = answerError{fmt.Errorf("no plugins in the answer of %s", at.address)}
	}
	if wrong, ok := errors.AsType[answerError](err); ok {
		err = fmt.Errorf("%w, want the status of evictd; does something else listen there?", wrong.error)
	}
	return status, err
}

// checkRunning asks a daemon that runs with c for its plugins, and adds what is wrong with them to
// what was found.
func checkRunning(ctx context.Context, c *config.Config, found []error) (errs []error, warnings []string) {
	if !rundir.InUse(c.RunDir) || strings.HasSuffix(c.ListenAddress, ":0") { // the port is not known
		return found, nil
	}
	var now struct{ Plugins []supervisor.Status }
	if err := ask(ctx, daemonAt{c.ListenAddress, c.RunDir}, "/status", statusTimeout, &now); err != nil {
		return found, []string{fmt.Sprintf("plugins of the running evictd: %v", err)}
	}
	errs, warnings = expected.CheckRunning(c, now.Plugins, found)
	return append(found, errs...), warnings
}
