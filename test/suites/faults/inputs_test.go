package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/evictd/evictd/test/harness/daemon"
)

// TestInputs runs every cell of the inputs of a decision.
func TestInputs(t *testing.T) {
	if os.Getenv("EVICTD_TEST_ROOT") == "" {
		t.Skip("needs root: run make test")
	}
	for _, name := range []string{"evictd", "memory", "disk", "pid"} {
		daemon.Build(t, name)
	}
	var all []inputCell
	for _, c := range inputCells() {
		if c.tried() {
			all = append(all, c)
		}
	}
	found := tryAll(t, all, (*inputCell).name, (*inputCell).run)
	var table strings.Builder
	for i, c := range all {
		f := found[i]
		if f.took == 0 { // not run
			continue
		}
		fmt.Fprintf(&table, "%-17s %-24s %-17s %6.1f s of %4.1f s  named: %-5v %s\n", c.input.name, c.fault, c.signal, f.took.Seconds(), c.bound.Seconds(), f.named, f.wrong)
	}
	t.Logf("every input in every way: time of the decision, bound\n%s", table.String())
}
