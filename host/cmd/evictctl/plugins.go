package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/face/expected"
	"github.com/evictd/evictd/host/internal/node/rundir"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
	"github.com/evictd/evictd/host/internal/why/tell/plugintable"
	"github.com/evictd/evictd/host/ociimage"
)

func newPlugins() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugins",
		Short: "Show the plugins of the running daemon",
		Long: "Ask the daemon with runDir for its plugins, for each signal and capability who is in charge and why,\n" +
			"and which steps of reclaim run for a signal, in which order.\n" +
			"With --run-dir no configuration is read.",
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newImage(), newInstall(), newScaffold())
	runDir := addRunDir(cmd)
	asJSON := cmd.Flags().Bool("json", false, "print what the daemon said of its plugins")
	cmd.AddCommand(newVerify())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at, err := runDir()
		if err != nil {
			return err
		}
		said, err := askPlugins(cmd.Context(), at)
		if err != nil {
			return command.Failure{Err: err}
		}
		tables, err := plugintable.Text(&said)
		if err != nil {
			return command.Failure{Err: fmt.Errorf("status of %s: %w", at, err)}
		}
		if *asJSON {
			return printJSON(cmd.OutOrStdout(), said.Plugins)
		}
		return command.Written(cmd.OutOrStdout().Write(tables))
	}
	return cmd
}

func askPlugins(ctx context.Context, runDir string) (status plugintable.Status, err error) {
	err = ask(ctx, runDir, "/status", statusTimeout, &status)
	if err == nil && status.Plugins == nil {
		err = answerError{fmt.Errorf("no plugins in the answer of the evictd in %s", runDir)}
	}
	if wrong, ok := errors.AsType[answerError](err); ok {
		err = fmt.Errorf("%w, want the status of evictd; does something else listen there?", wrong.error)
	}
	return status, err
}

// checkRunning asks a daemon that runs with c for its plugins, and adds their problems to found.
func checkRunning(ctx context.Context, c *config.Config, found []string) (errs, warnings []string) {
	if !rundir.InUse(c.RunDir) {
		return found, nil
	}
	var now struct{ Plugins []supervisor.Status }
	if err := ask(ctx, c.RunDir, "/status", statusTimeout, &now); err != nil {
		return found, []string{fmt.Sprintf("plugins of the running evictd: %v", err)}
	}
	errs, warnings = expected.CheckRunning(c, now.Plugins, found)
	return append(found, errs...), warnings
}

func newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image BINARY... NAME:TAG",
		Short: "Write the image of a plugin, as the chart installs it",
		Long: "Write an image that has just a plugin, a static executable, as an OCI archive. Of several BINARY each is of another\n" +
			"architecture, which its header says. The file is in the image under the name of the first BINARY. Neither a\n" +
			"container runtime nor a base image is needed, and nothing is pulled or pushed. SOURCE_DATE_EPOCH is its date.",
		Example: "  evictctl plugins image bin/spot-first registry.example.org/spot-first:1.2.0\n" +
			"  evictctl plugins image amd64/spot-first arm64/spot-first registry.example.org/spot-first:1.2.0",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return fmt.Errorf("%d arguments, want the plugin's executable and the name of the image, see evictctl plugins image --help", len(args))
			}
			return nil
		},
	}
	output := cmd.Flags().String("output", "", "file to write (default of the image's name, as spot-first_1.2.0_oci.tar)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		binaries, image := args[:len(args)-1], args[len(args)-1]
		tag, err := ociimage.ParseName(image)
		if err != nil {
			return err
		}
		plugin := filepath.Base(binaries[0])
		file := cmp.Or(*output, path.Base(tag.RepositoryStr())+"_"+tag.TagStr()+"_oci.tar")
		if err := ociimage.WritePlugin(binaries, image, file); err != nil {
			return command.Failure{Err: err}
		}
		return command.Written(fmt.Fprintf(cmd.OutOrStdout(), "wrote %s with %s\non each node, or push it to your registry:\n    ctr -n k8s.io images import %[1]s\nvalues of the chart:\n"+
			"    plugins:\n    - {name: %[3]s, image: %[2]q, path: /%[3]s}\n", file, image, plugin))
	}
	return cmd
}

func newInstall() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "install [NAME=]FILE... DIR",
		Short: "Copy executables into a plugin directory",
		Long: "Copy plugins into DIR, which is made if it is not there: with mode 0755, and each whole or not at all. Symbolic\n" +
			"links are followed. NAME is the plugin's name, where FILE has another one. For containers without a shell.",
		Args: cobra.MinimumNArgs(2),
	}
	link := cmd.Flags().Bool("link", false, "make symbolic links to FILE, which need not be there yet, and remove the other links in DIR")
	stay := cmd.Flags().Bool("stay", false, "leave in DIR the reason why a FILE cannot be copied, and wait for SIGTERM: for a container beside evictd's")
	cmd.MarkFlagsMutuallyExclusive("link", "stay")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, files := args[len(args)-1], named(args[:len(args)-1])
		install := plugindir.Install
		switch {
		case *link:
			install = plugindir.Link
		case *stay:
			install = plugindir.Stage
		}
		for name, path := range files {
			err := install(path, filepath.Join(dir, name))
			if _, refused := errors.AsType[plugindir.Refusal](err); refused && *stay {
				_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "evictd: install: %v\n", err)
			} else if err != nil {
				return command.Failure{Err: fmt.Errorf("install: %w", err)}
			}
		}
		if *link {
			if err := plugindir.RemoveLinks(dir, func(name string) bool { return files[name] == "" }); err != nil {
				return command.Failure{Err: fmt.Errorf("install: %w", err)}
			}
		}
		if *stay {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			<-ctx.Done()
		}
		return nil
	}
	return cmd
}

// named returns the files by the names of their plugins.
func named(args []string) map[string]string {
	files := map[string]string{}
	for _, file := range args {
		name, path, given := strings.Cut(file, "=")
		if !given {
			name, path = filepath.Base(file), file
		}
		files[name] = path
	}
	return files
}
