package main

import (
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/why/find"
	"github.com/evictd/evictd/shared/eviction"
)

// fromRecords completes with words and the results of of for records in dir, which may be nil.
func fromRecords(dir func() (string, error), of func(*decision.Head) []string, words ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		_ = program.DefaultConfig(cmd, nil) // normally runs before commands only
		in := ""
		if dir != nil {
			in, _ = dir()
		}
		return find.Words(in, typed, of, words...), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// completeNames completes arguments of cmd with names of records and, if files is set, with JSON
// files. Other files are left to the shell.
func completeNames(cmd *cobra.Command, dir func() (string, error), files bool) {
	names := fromRecords(dir, find.Names)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if cmd.ValidateArgs(append(args, typed)) != nil { // no more arguments allowed
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		words, how := names(cmd, args, typed)
		if files {
			plain, _ := filepath.Glob(typed + "*.json")
			packed, _ := filepath.Glob(typed + "*.json.gz")
			words, how = slices.Concat(words, plain, packed), cobra.ShellCompDirectiveKeepOrder
		}
		return words, how
	}
}

// completeSignal completes --signal of cmd with the kubelet's signals and those of the records in dir.
func completeSignal(cmd *cobra.Command, dir func() (string, error)) {
	var signals []string
	for _, s := range eviction.BuiltinSignals() {
		signals = append(signals, string(s))
	}
	_ = cmd.RegisterFlagCompletionFunc("signal", fromRecords(dir, find.Signals, signals...)) // the flag exists
}
