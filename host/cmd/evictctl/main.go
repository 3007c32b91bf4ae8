// Command evictctl checks a node for evictd, asks a running evictd, explains and replays what it decided, and makes and
// verifies plugins.
package main

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/memlock"
)

// Set by the linker: -X main.version=... -X main.commit=...
var version, commit string

var program = command.New("evictctl", version, commit)

func start() {
	if len(os.Args) > 1 && slices.Contains([]string{"evictions", "explain", "observe", "rank"}, os.Args[1]) {
		memlock.Yield() // the others start plugins
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return program.Execute(ctx, newRoot(), args, stdout, stderr, store.ErrNone) //nolint:contextcheck // commands get ctx from cobra
}

func newRoot() *cobra.Command {
	return program.Root("Ask evictd, check its node, explain what it did",
		"evictctl checks a node for evictd, asks a running evictd, explains and replays what it decided,\n"+
			"and makes and verifies plugins.",
		newCheck(), newEvictions(), newExplain(), newObserve(), newPlugins(), newProtectNode(), newRank(), newReplay(), newReport(), newUninstallCluster(), newUninstallNode())
}

// runWith makes cmd run with the configuration of the flags that it gets.
func runWith(cmd *cobra.Command, run func(*cobra.Command, *config.Config) error) {
	flags := config.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := flags.LoadDaemon()
		if err != nil {
			return err
		}
		return run(cmd, &cfg)
	}
}
