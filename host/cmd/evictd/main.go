// Command evictd is the host daemon: it reads flags and configuration, sets up
// log and signals, and runs the eviction manager of package host.
//
// It decides nothing about pods and starts no plugin itself.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/logbuffer"
	"github.com/evictd/evictd/host/internal/why/store"
	"github.com/evictd/evictd/shared/memlock"
	"github.com/evictd/evictd/shared/wire"
)

// Set by the linker: -X main.version=... -X main.commit=...
var (
	version string
	commit  string
)

func start() {
	fillBuild()
	if len(os.Args) > 1 && slices.Contains([]string{"evictions", "explain", "observe", "rank"}, os.Args[1]) {
		memlock.Yield()
	}
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and plugin protocol",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return written(fmt.Fprintf(cmd.OutOrStdout(), "evictd %s\ncommit %s\ngo %s %s/%s\nprotocol %d\n",
				version, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.ProtocolMajor))
		},
	}
}

// fillBuild sets the variables that the linker did not set from the build information.
func fillBuild() {
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = cmp.Or(commit, s.Value)
			}
		}
	}
	version, commit = cmp.Or(version, "unknown"), cmp.Or(commit, "unknown")
}

// ownFile is the default configuration file. Tests have none.
var ownFile = config.OwnFile

// defaultConfig sets --config to the daemon's file if it is not given. It is an error if that may
// not be read, as for a given one. --config= means no file.
func defaultConfig(cmd *cobra.Command, _ []string) error {
	given := cmd.Flags().Lookup("config")
	if _, err := os.Stat(ownFile); given == nil || given.Changed || cmd.Name() == "verify" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return cmd.Flags().Set("config", ownFile)
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

// The exit codes.
const (
	exitFine    = 0
	exitFailure = 1
	// exitUsage is for errors in the command line or the configuration.
	exitUsage = 2
)

// A failure is an error of the operation itself, like store.ErrNone. All others are errors in the
// command line or the configuration.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot() //nolint:contextcheck // commands get ctx from cobra
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	out := logbuffer.New(stderr) // its reader may have stalled
	say(out, err.Error())
	_ = out.Close() // there is no place left to report it
	if _, ok := errors.AsType[failure](err); ok || errors.Is(err, store.ErrNone) {
		return exitFailure
	}
	return exitUsage
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "evictd",
		Short: "The kubelet's node-pressure eviction, unbundled",
		Long: "evictd watches memory, disk and process ids of a node through plugins and evicts pods\n" +
			"by the kubelet's rules when they run short.",
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: defaultConfig,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("no command given, want run, check, evictions, explain, observe, rank, replay, plugins, protect-node, uninstall-node, uninstall-cluster or version (evictd --help)")
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && cmd.Flags().Lookup("config") != nil {
			if key := config.KeyOf(unknown.GetSpecifiedName()); key != "" {
				return fmt.Errorf("%w, set %s in the file of --config", err, key)
			}
		}
		return fmt.Errorf("%w, see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newRun(), newCheck(), newEvictions(), newExplain(), newObserve(), newRank(), newReplay(), newPlugins(), newProtectNode(), newUninstallNode(), newUninstallCluster(), newVersion())
	return root
}
