// Command evictd is the host daemon: it reads flags and configuration, sets up
// log and signals, and runs the eviction manager of package host.
//
// It decides nothing about pods and starts no plugin itself.
package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/shared/wire"
)

// Set by the linker: -X main.version=... -X main.commit=...
var (
	version string
	commit  string
)

func main() {
	fillBuild()
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

// fillBuild takes from the build information what the linker was not told.
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
