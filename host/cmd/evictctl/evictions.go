package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/face/command"
	"github.com/evictd/evictd/host/internal/face/config"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/host/internal/why/tell"
)

// addRecordsDir adds the flags for the records directory, and returns their evaluation.
func addRecordsDir(cmd *cobra.Command) func() (string, error) {
	file := cmd.Flags().String("config", "", "configuration file of the evictd that made the records (default "+config.OwnFile+" if it exists)")
	dir := cmd.Flags().String("state-dir", "", "directory of the records (default that of the configuration)")
	return func() (string, error) {
		if *dir != "" {
			if _, err := os.Stat(*dir); err != nil {
				return "", command.Failure{Err: fmt.Errorf("--state-dir: %q: %w, want the stateDir of the evictd that made the records", *dir, errors.Unwrap(err))}
			}
			return config.RecordsDir(*dir), nil
		}
		c, err := config.Load(*file)
		if err != nil {
			return "", err
		}
		if c.StateDir == "" {
			return "", fmt.Errorf(`stateDir: "" in the configuration, so that no records are kept: want a directory, or --state-dir`)
		}
		return config.RecordsDir(c.StateDir), nil
	}
}

func newEvictions() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "evictions [POD|UID|OWNER|EPISODE]",
		Short: "List the evictions of this node, and what else was decided",
		Long: "List what evictd has decided on this node, the newest last, from the records that it keeps: evictions,\n" +
			"and with --all also why there was none. So are kills by the kernel and evictions by others. evictd need not run.",
		Args: cobra.MaximumNArgs(1),
	}
	dir := addRecordsDir(cmd)
	var f store.Filter
	flags := cmd.Flags()
	flags.BoolVar(&f.All, "all", false, "also decisions not to evict")
	flags.Var((*find.Age)(&f.Since), "since", "only those of the last so long, such as 36h or 7d")
	flags.StringVar(&f.Signal, "signal", "", "only those for a signal, such as memory.available")
	flags.StringVar(&f.Namespace, "namespace", "", "only those of pods of a namespace")
	flags.StringVar(&f.Kind, "kind", "", "only those of a kind, such as limit or other, also decisions not to evict, such as grace")
	flags.StringVar(&f.Plugin, "plugin", "", "only those whose order a plugin made, such as memory")
	asJSON := flags.Bool("json", false, "print them as JSON, one object a line")
	completeNames(cmd, dir, false)
	completeSignal(cmd, dir)
	_ = cmd.RegisterFlagCompletionFunc("namespace", fromRecords(dir, find.Namespaces))
	_ = cmd.RegisterFlagCompletionFunc("kind", fromRecords(dir, find.Kinds))
	_ = cmd.RegisterFlagCompletionFunc("plugin", cobra.FixedCompletions([]string{"memory", "disk", "pid"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f.What = strings.Join(args, "")
		in, err := dir()
		if err != nil {
			return err
		}
		saySick(cmd)
		heads, unread := store.Heads(in, f)
		if f.What != "" && len(heads) == 0 {
			f.Loose = true
			heads, unread = store.Heads(in, f)
		}
		if unread != nil && len(heads) == 0 {
			return command.Failure{Err: unread}
		}
		if unread != nil {
			program.Say(cmd.ErrOrStderr(), unread.Error())
		}
		if *asJSON {
			return printJSONLines(cmd.OutOrStdout(), heads...)
		}
		if err := command.Written(cmd.OutOrStdout().Write(tell.Evictions(heads))); err != nil || len(heads) > 0 || unread != nil {
			return err
		}
		program.Say(cmd.ErrOrStderr(), find.WhyNone(&f, in, time.Now()))
		return nil
	}
	return cmd
}
