//go:build man

package main

import (
	"errors"
	"log"
	"os"
	"path/filepath"

	"github.com/spf13/cobra/doc"
)

// main writes the manual pages of all commands and the completions of shells into a
// directory, for packages. The pages' date is that of SOURCE_DATE_EPOCH.
func main() {
	dir, root := os.Args[1], newRoot()
	root.DisableAutoGenTag = true
	if err := errors.Join(
		doc.GenManTree(root, &doc.GenManHeader{Section: "8", Source: "evictd", Manual: "evictd"}, dir),
		root.GenBashCompletionFileV2(filepath.Join(dir, "evictd.bash"), true),
		root.GenZshCompletionFile(filepath.Join(dir, "_evictd")),
		root.GenFishCompletionFile(filepath.Join(dir, "evictd.fish"), true),
	); err != nil {
		log.Fatal(err)
	}
}
