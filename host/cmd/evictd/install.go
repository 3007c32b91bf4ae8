package main

import (
	"cmp"
	"fmt"
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
	put := map[bool]func(from, to string) error{false: plugindir.Install, true: plugindir.Link}
	as := cmd.Flags().String("as", "", "name of the plugin, where FILE has another one")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		files, dir := args[:len(args)-1], args[len(args)-1]
		if *as != "" && len(files) > 1 {
			return fmt.Errorf("--as %s with %d files, want one", *as, len(files))
		}
		for _, f := range files {
			if err := put[*link](f, filepath.Join(dir, cmp.Or(*as, filepath.Base(f)))); err != nil {
				return failure{fmt.Errorf("install %s: %w", f, err)}
			}
		}
		return nil
	}
	return cmd
}
