//go:build man

// Package manual writes the manual pages and completions of a command line, for packages.
package manual

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// Write writes the pages and completions of all commands into a directory. It modifies the texts of root. The pages have
// the date in SOURCE_DATE_EPOCH.
func Write(root *cobra.Command, dir string) error {
	root.DisableAutoGenTag = true
	name := root.Name()
	completions := errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, name+".bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_"+name)),
		root.GenFishCompletionFile(filepath.Join(dir, name+".fish"), true),
	)
	escape(root)
	return errors.Join(completions, doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "evictd", Manual: "evictd"}, dir))
}

// escape protects thresholds such as memory.available<1Gi: the page writer takes texts as Markdown,
// in which "<" begins a tag.
func escape(cmd *cobra.Command) {
	escaped := func(text *string) { *text = strings.ReplaceAll(*text, "<", `\<`) }
	escaped(&cmd.Short)
	escaped(&cmd.Long)
	for _, flags := range []*pflag.FlagSet{cmd.LocalFlags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(f.Usage, `\<`) { // shared by several commands
				escaped(&f.Usage)
			}
		})
	}
	for _, c := range cmd.Commands() {
		escape(c)
	}
}
