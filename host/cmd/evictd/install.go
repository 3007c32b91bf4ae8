package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

func newInstall() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install FILE... DIR",
		Short: "Copy executables into a plugin directory",
		Long: "Copy plugins into DIR, which is made if it is not there: with mode 0755, and each whole or not at all. A symbolic\n" +
			"link is copied as a link. For containers without a shell.",
		Args: cobra.MinimumNArgs(2),
	}
	link := cmd.Flags().Bool("link", false, "make symbolic links to FILE, which need not be there yet")
	as := cmd.Flags().String("as", "", "name of the plugin, where FILE has another one")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		files, dir := args[:len(args)-1], args[len(args)-1]
		if *as != "" && len(files) > 1 {
			return fmt.Errorf("--as %s with %d files, want one", *as, len(files))
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return failure{err}
		}
		for _, f := range files {
			do := plugindir.Install
			if *link {
				do = plugindir.Link
			}
			if err := do(f, filepath.Join(dir, cmp.Or(*as, filepath.Base(f)))); err != nil {
				return failure{fmt.Errorf("install %s: %w", f, err)}
			}
		}
		return nil
	}
	return cmd
}
