package verifytable

import (
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/conformance"
)

// The amount that --reclaim gave back on the machine was in no report.
func TestVerifyTellsHowMuchWasReclaimed(t *testing.T) {
	r := conformance.Report{Reclaimed: &conformance.Reclaimed{Calls: 3, Bytes: 4096, Inodes: 2}}
	const want = "\n4096 bytes and 2 inodes reclaimed on this machine in 3 calls, as the plugin says\n"
	if got := string(Text(&r)); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	r.Reclaimed = nil
	if got := string(Text(&r)); strings.Contains(got, "reclaimed") {
		t.Errorf("no step was run, but:\n%s", got)
	}
}
