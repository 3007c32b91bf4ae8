package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/shared/wire"
)

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
