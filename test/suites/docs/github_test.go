package docs

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const github = root + "/.github/"

var pinned = regexp.MustCompile(`^[\w-]+/[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// A tag of an action can be moved to another commit, a hash cannot.
func TestActionsArePinnedByHash(t *testing.T) {
	workflows, err := filepath.Glob(github + "workflows/*.yml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	found := 0
	for _, workflow := range workflows {
		for n, line := range lines(t, workflow) {
			if _, action, uses := strings.Cut(line, "uses: "); uses {
				found++
				if !pinned.MatchString(action) {
					t.Errorf("%s:%d: %s, want OWNER/NAME@HASH # VERSION", workflow, n+1, action)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d actions were recognized", found)
	}
}
