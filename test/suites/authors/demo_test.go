package authors

import (
	"os"
	"strings"
	"testing"
)

// The demo evicts another pod with the module as it was made, and yet another with
// the reader's own rule.
func TestTheDocumentsPluginChangesTheVictim(t *testing.T) {
	if os.Getenv("EVICTD_TEST_E2E") != "1" {
		t.Skip("needs root and real containers: run make e2e")
	}
	if os.Getenv("CI") != "" && os.Getenv("EVICTD_NIGHTLY") == "" {
		t.Skip("part of make nightly: the gate follows the document without the demo, and has the demo with a ranker of the examples")
	}
	out := follow(t, t.TempDir(), "set -euo pipefail\n"+script(t, readDocument(t), node))
	var verdicts []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "demo: ") {
			verdicts = append(verdicts, line)
		}
	}
	want := []string{"evicted demo/steady instead of demo/hog", "evicted demo/reserved instead of demo/hog"}
	if len(verdicts) != len(want) {
		t.Fatalf("%d demos, want %d:\n%s", len(verdicts), len(want), out)
	}
	for i, w := range want {
		if !strings.Contains(verdicts[i], w) || !strings.Contains(verdicts[i], "ranked by deletion-cost") {
			t.Errorf("demo %d: %s, want %q and the plugin's ranking", i+1, verdicts[i], w)
		}
	}
}
