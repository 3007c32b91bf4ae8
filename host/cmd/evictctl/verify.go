package main

import (
	"context"
	"fmt"
	"io"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/host/internal/ground/quantity"
	"github.com/evictd/evictd/host/internal/pluginhost/client"
	"github.com/evictd/evictd/host/internal/why/tell/verifytable"
	"github.com/evictd/evictd/shared/conformance"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/sandbox"
)

// A verification holds the options for checking a plugin.
type verification struct {
	conformance.Options

	configFile, socket string
	asJSON, autoMTLS   bool
	// user and memoryLimit configure the plugin's confinement.
	user, memoryLimit string
}

// newVerify checks a plugin without a daemon and without a node.
func newVerify() *cobra.Command {
	var v verification
	cmd := &cobra.Command{
		Use:   "verify BINARY|--socket PATH",
		Short: "Check that a plugin keeps the contract",
		Long: "Start BINARY, a plugin in any language, as the daemon would and check that it keeps the contract:\n" +
			"handshake, deadlines, bounds, idempotence, concurrency, garbage in, an orderly end. It is called with\n" +
			"made-up pods; nothing is evicted, no daemon is needed, nor root unless the plugin needs it.\n" +
			"It runs with all the rights of the caller, and without limits. With --user or --memory-limit\n" +
			"it is confined as the daemon confines a custom plugin: no capabilities, and the limits that are usual.\n" +
			"With --socket a plugin is checked that another program has started and that listens there: it gets made-up\n" +
			"configurations, so it should not serve a daemon.\n" +
			"Exit code 1 is a plugin that fails a check, 2 a wrong command line.",
		Example: "  evictctl plugins verify ./my-plugin\n" +
			"  evictctl plugins verify ./my-plugin --user nobody --memory-limit 64Mi\n" +
			"  evictctl plugins verify /usr/libexec/evictd/plugins/disk --config disk.yaml --reclaim\n" +
			"  evictctl plugins verify --socket /tmp/my-plugin.sock",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case v.socket != "" && len(args) > 0:
				return fmt.Errorf("got an executable and --socket %s, want one of them", v.socket)
			case v.socket == "" && len(args) != 1:
				return fmt.Errorf("got %d arguments, want one: the executable of a plugin, such as ./my-plugin", len(args))
			}
			return nil
		},
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if v.socket != "" {
			return v.run(cmd, v.socket, conformance.Socket)
		}
		return v.run(cmd, args[0], conformance.Binary)
	}
	flags := cmd.Flags()
	flags.StringVar(&v.configFile, "config", "", "file with the plugin's own configuration, YAML or JSON: what stands under plugins.NAME.config of the daemon's")
	flags.BoolVar(&v.Reclaim, "reclaim", false, "also run the plugin's reclaim steps: they free what they free on this machine")
	flags.StringVar(&v.RuntimeEndpoint, "runtime-endpoint", "", "CRI socket that the plugin is told of, as unix:// and a path (default: that of containerd or CRI-O)")
	flags.BoolVar(&v.asJSON, "json", false, "print the report as JSON")
	flags.BoolVar(&v.autoMTLS, "auto-mtls", true, "talk over TLS, as the daemon does unless plugins.NAME.autoMTLS is false")
	flags.DurationVar(&v.Timeout, "timeout", conformance.DefaultTimeout, "time that the whole run may take")
	flags.StringSliceVar(&v.Only, "only", nil, "groups of checks to run after those of describe, to look again at what failed: "+strings.Join(conformance.Groups(), ", "))
	flags.StringVar(&v.socket, "socket", "", "socket of a plugin that runs already, in place of BINARY")
	flags.StringVar(&v.user, "user", "", "run the plugin as this user, by name or number, confined as the daemon would: plugins.NAME.user")
	flags.StringVar(&v.memoryLimit, "memory-limit", "", "run it with this limit of memory, such as 64Mi, confined as the daemon would: plugins.NAME.memoryLimit")
	for _, ofStart := range []string{"user", "memory-limit", "auto-mtls"} {
		cmd.MarkFlagsMutuallyExclusive("socket", ofStart)
	}
	return cmd
}

func (v *verification) run(cmd *cobra.Command, plugin string, check func(context.Context, string, conformance.Options) (conformance.Report, error)) (err error) {
	v.NoTLS = !v.autoMTLS
	if v.Timeout <= 0 {
		return fmt.Errorf("--timeout is %s, want more than 0", v.Timeout)
	}
	for _, group := range v.Only {
		if !slices.Contains(conformance.Groups(), group) {
			return fmt.Errorf("--only is %q, want some of %s", group, strings.Join(conformance.Groups(), ", "))
		}
	}
	var at input.Place
	if v.Config, at, err = input.PluginConfig(v.configFile); err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	v.Locate = func(fields eviction.FieldErrors) error { return client.Located(fields, at) }
	if err := v.confine(cmd.ErrOrStderr()); err != nil {
		return err
	}
	// When interrupted, it still ends what it has started.
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	report, err := check(ctx, plugin, v.Options)
	if err != nil {
		return err
	}
	if v.asJSON {
		err = printJSON(cmd.OutOrStdout(), report)
	} else {
		err = command.Written(cmd.OutOrStdout().Write(verifytable.Text(&report)))
	}
	if err != nil {
		return err
	}
	if n := report.Count(conformance.Failed); n > 0 {
		return command.Failure{Err: fmt.Errorf("%s fails %d of %d checks", plugin, n, len(report.Checks))}
	}
	return nil
}

func (v *verification) confine(warnings io.Writer) error {
	if v.user == "" && v.memoryLimit == "" {
		return nil
	}
	policy := sandbox.Usual()
	policy.User = v.user
	if v.memoryLimit != "" {
		limit, err := quantity.Parse(v.memoryLimit)
		if err != nil {
			return fmt.Errorf("--memory-limit: %q: %w", v.memoryLimit, err)
		}
		if policy.MemoryBytes = limit.Value(); policy.MemoryBytes < config.MinMemoryLimit {
			return fmt.Errorf("--memory-limit: %q: want 16Mi or more", v.memoryLimit)
		}
	}
	if err := sandbox.Try(policy); err != nil {
		return fmt.Errorf("--user, --memory-limit: %w", err)
	}
	var mu sync.Mutex
	warn := func(what string) func(string, error) {
		return func(_ string, err error) {
			mu.Lock()
			defer mu.Unlock()
			program.Say(warnings, what+": "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
	}
	v.Sandbox = &policy
	v.Tell = sandbox.Tell{Unlimited: warn("the plugin runs without some of its limits"), Left: warn("something of a plugin is left")}
	return nil
}
