package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Faults of a process that do not concern its start and end.
func TestFaultyProcessesOnASocketFailForTheRightReason(t *testing.T) {
	if !whole() {
		t.Skip("takes seconds: run make test")
	}
	for fault, f := range map[string]struct{ text, fails string }{
		"leaks-descriptors":       {"after the checks of rank", "descriptors"},
		"leaks-memory":            {"after the checks of rank", "memory"},
		"crashes-with-many":       {"its connection ended", "rank-500"},
		"crashes-in-describe":     {"its connection ended", "describe"},
		"crashes-when-configured": {"its connection ended", "configure"},
		"no-health":               {"Unimplemented", "health"},
		"none":                    {},
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			dir, err := privateDir()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			socket := filepath.Join(dir, "p.sock")
			serveOutside(t, socket, fault)
			o := Options{Reclaim: true, deadlineFactor: 4, Timeout: 2 * time.Minute}
			if strings.HasPrefix(fault, "leaks-") {
				o.Only = singleCalls
			}
			r, err := Socket(t.Context(), socket, o)
			if err != nil {
				t.Fatal(err)
			}
			if f.fails == "" {
				if failed := failures(&r); len(failed) > 0 {
					t.Errorf("failed: %q", failed)
				}
				return
			}
			n := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == f.fails })
			if n < 0 || r.Checks[n].Result != Failed || !strings.Contains(r.Checks[n].Seen, f.text) {
				t.Errorf("failed: %q, want %s with %q", failures(&r), f.fails, f.text)
			}
		})
	}
}
