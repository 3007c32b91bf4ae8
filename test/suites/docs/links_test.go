package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// Links lead to files that are there, and to headings in them.
func TestLinks(t *testing.T) {
	found := 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/parity/*.md", "docs/decisions/*.md", "deploy/chart/*.md", "plugins/*/*.md"} {
		documents, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(documents) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, document := range documents {
			for _, m := range link.FindAllStringSubmatch(read(t, document), -1) {
				found++
				target := document
				if m[1] != "" {
					target = filepath.Join(filepath.Dir(document), m[1])
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: link to %s: %v", document, m[1], err)
				} else if m[2] != "" && !slices.Contains(anchors(t, target), m[2]) {
					t.Errorf("%s: %s has no heading #%s", document, target, m[2])
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d links were recognized", found)
	}
}

// anchors are those that the headings of a document have.
func anchors(t *testing.T, document string) []string {
	t.Helper()
	var all []string
	for _, m := range heading.FindAllStringSubmatch(read(t, document), -1) {
		all = append(all, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
