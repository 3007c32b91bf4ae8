package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/scaffold"
)

func newScaffold() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "new NAME --rank|--disk|--signal|--python",
		Short: "Write the start of a plugin that builds and passes its tests",
		Long: "Write a Go module with the start of a plugin into the new directory NAME: one that ranks pods (--rank), one that\n" +
			"is the built-in disk plugin with an own step of reclaim (--disk), or one with a custom signal (--signal). With\n" +
			"--python it is one in Python that ranks pods, with a Dockerfile for an image of its own.\n" +
			"Nothing that exists is changed. See docs/plugin-authors.md for what to do with it.",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want the name of the plugin and nothing else, see evictctl plugins new --help", len(args))
			}
			return nil
		},
	}
	kinds := []scaffold.Kind{scaffold.Rank, scaffold.Disk, scaffold.Signal, scaffold.Python}
	chosen := make([]bool, len(kinds))
	for i, what := range []string{"a plugin that ranks pods", "a disk plugin with an own step of reclaim", "a plugin with a custom signal", "a plugin in Python that ranks pods"} {
		cmd.Flags().BoolVar(&chosen[i], string(kinds[i]), false, what)
	}
	o := scaffold.Options{Version: program.Version}
	cmd.Flags().StringVar(&o.SDKDir, "sdk", "", "build with the SDK in this checkout of evictd; needed if this evictd is no release")
	cmd.Flags().StringVar(&o.Module, "module", "", "path of the Go module, whose domain the names in it get (default example.com/NAME)")
	cmd.Flags().StringVar(&o.Dir, "dir", "", "directory to make (default NAME)")
	cmd.Flags().SortFlags = false
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.Name = args[0]
		for i, kind := range kinds {
			switch {
			case chosen[i] && o.Kind != "":
				return errors.New("several kinds, want one of --rank, --disk, --signal and --python")
			case chosen[i]:
				o.Kind = kind
			}
		}
		if err := o.Validate(); err != nil {
			return err
		}
		module, err := scaffold.Write(o)
		if err != nil {
			return command.Failure{Err: err}
		}
		return command.Written(fmt.Fprint(cmd.OutOrStdout(), nextSteps(o, module)))
	}
	return cmd
}

// nextSteps describes what was written and what to do with it.
func nextSteps(o scaffold.Options, m scaffold.Module) string {
	commands := []string{"cd " + m.Dir}
	if m.Tidy {
		commands = append(commands, "go mod tidy")
	}
	if o.Kind == scaffold.Python {
		commands = append(commands, "python3 -m unittest", "sh build.sh bin/"+o.Name)
	} else {
		commands = append(commands, "go test ./...", "CGO_ENABLED=0 go build -trimpath -o bin/"+o.Name+" .")
	}
	commands = append(commands, "evictctl plugins verify bin/"+o.Name)
	return fmt.Sprintf("made %s with %s\nnext:\n    %s\n", m.Dir, strings.Join(m.Files, ", "), strings.Join(commands, "\n    "))
}
