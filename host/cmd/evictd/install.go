package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
)

func newInstall() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [NAME=]FILE... DIR",
		Short: "Copy executables into a plugin directory",
		Long: "Copy plugins into DIR, which is made if it is not there: with mode 0755, and each whole or not at all. A symbolic\n" +
			"link is copied as a link. NAME is the plugin's name, where FILE has another one. For containers without a shell.",
		Args: cobra.MinimumNArgs(2),
	}
	link := cmd.Flags().Bool("link", false, "make symbolic links to FILE, which need not be there yet, and remove the other links in DIR")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		dir, files := args[len(args)-1], map[string]string{}
		for _, file := range args[:len(args)-1] {
			name, path, named := strings.Cut(file, "=")
			if !named {
				name, path = filepath.Base(file), file
			}
			files[name] = path
		}
		install := plugindir.Install
		if *link {
			install = plugindir.Link
		}
		for name, path := range files {
			if err := install(path, filepath.Join(dir, name)); err != nil {
				return failure{fmt.Errorf("install %s: %w", path, err)}
			}
		}
		if !*link {
			return nil
		}
		if err := plugindir.RemoveLinks(dir, func(name string) bool { return files[name] == "" }); err != nil {
			return failure{fmt.Errorf("install: %w", err)}
		}
		return nil
	}
	return cmd
}
