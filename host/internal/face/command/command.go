// Package command has what the command lines of evictd and evictctl share: exit codes, messages, the version and the
// default of --config.
package command

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
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/ground/logbuffer"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/wire"
)

// The exit codes.
const (
	ExitFine    = 0
	ExitFailure = 1
	// ExitUsage is for errors in the command line or the configuration.
	ExitUsage = 2
)

// A Failure is an error of the operation itself. All others are errors in the command line or the configuration.
type Failure struct{ Err error }

func (f Failure) Error() string { return f.Err.Error() }

// Unwrap returns the error of the operation.
func (f Failure) Unwrap() error { return f.Err }

// Failed returns err as a Failure, nil for none.
func Failed(err error) error {
	if err != nil {
		return Failure{err}
	}
	return nil
}

// Written converts an error of writing to standard output to a Failure.
func Written(_ int, err error) error { return Failed(err) }

// A Program is evictd or evictctl. Version and Commit are empty unless the linker sets them.
type Program struct {
	Name, Version, Commit string
	// OwnFile is the default of --config. Tests have none.
	OwnFile string
}

// New returns a program with the daemon's file as default, and what the linker did not set from the build information.
func New(name, version, commit string) *Program {
	p := &Program{name, version, commit, config.OwnFile}
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = cmp.Or(p.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				p.Commit = cmp.Or(p.Commit, s.Value)
			}
		}
	}
	p.Version, p.Commit = cmp.Or(p.Version, "unknown"), cmp.Or(p.Commit, "unknown")
	return p
}

// Root returns the root command, to which the caller adds commands.
func (p *Program) Root(short, long string, commands ...*cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use: p.Name, Short: short, Long: long,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
		PersistentPreRunE: p.DefaultConfig,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && cmd.Flags().Lookup("config") != nil {
			if key := config.KeyOf(unknown.GetSpecifiedName()); key != "" {
				return fmt.Errorf("%w, set %s in the file of --config", err, key)
			}
		}
		return fmt.Errorf("%w, see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(append(commands, p.version())...)
	root.RunE = func(*cobra.Command, []string) error {
		var names []string
		for _, c := range root.Commands() {
			if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
				names = append(names, c.Name())
			}
		}
		return fmt.Errorf("no command given, want %s or %s (%s --help)", strings.Join(names[:len(names)-1], ", "), names[len(names)-1], p.Name)
	}
	return root
}

func (p *Program) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, Go version and plugin protocol",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return Written(fmt.Fprintf(cmd.OutOrStdout(), "%s %s\ncommit %s\ngo %s %s/%s\nprotocol %d\n",
				p.Name, p.Version, p.Commit, runtime.Version(), runtime.GOOS, runtime.GOARCH, wire.ProtocolMajor))
		},
	}
}

// DefaultConfig sets --config of cmd to the daemon's file if it is not given. It is an error if that may not be read, as
// for a given one. --config= means no file.
func (p *Program) DefaultConfig(cmd *cobra.Command, _ []string) error {
	given := cmd.Flags().Lookup("config")
	if _, err := os.Stat(p.OwnFile); given == nil || given.Changed || cmd.Name() == "verify" || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return cmd.Flags().Set("config", p.OwnFile)
}

// Execute runs a command line and returns the exit code. Errors that are one of failures are Failures.
func (p *Program) Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer, failures ...error) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitFine
	}
	out := logbuffer.New(stderr) // its reader may have stalled
	p.Say(out, err.Error())
	_ = out.Close() // there is no place left to report it
	_, failed := errors.AsType[Failure](err)
	for _, failure := range failures {
		failed = failed || errors.Is(err, failure)
	}
	if failed {
		return ExitFailure
	}
	return ExitUsage
}

// Say writes lines to standard error, ignoring errors: there is no place left to report them.
func (p *Program) Say(stderr io.Writer, text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			_, _ = fmt.Fprintf(stderr, "%s: %s\n", p.Name, printable.Text(line))
		}
	}
}
