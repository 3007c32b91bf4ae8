//go:build man

package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"
)

// main writes the manual pages and shell completions of all commands into a directory, for
// packages. The pages have the date in SOURCE_DATE_EPOCH.
func main() {
	dir, root := os.Args[1], newRoot()
	root.DisableAutoGenTag = true
	if err := errors.Join(
		root.GenBashCompletionFileV2(filepath.Join(dir, "evictd.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_evictd")),
		root.GenFishCompletionFile(filepath.Join(dir, "evictd.fish"), true),
		manPages(root, dir),
	); err != nil {
		log.Fatal(err)
	}
}

// manPages writes the pages of root, whose texts it modifies.
func manPages(root *cobra.Command, dir string) error {
	escape(root)
	return doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "evictd", Manual: "evictd"}, dir)
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
