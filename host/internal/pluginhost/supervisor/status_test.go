package supervisor

import (
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

// The status read what is known of the plugins while it changed: the race detector
// sees it.
func TestStatusWhilePluginsComeAndGo(t *testing.T) {
	t.Parallel()
	h := insideHost(t, Options{}, map[string]eviction.Plugin{"a": inside{rank: inOrder}.plugin()})
	for n := range 50 {
		settings := map[string]Settings{"a": {Disabled: n%2 == 0}}
		if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, settings); err != nil {
			t.Fatal(err)
		}
		if s := h.Status(); len(s) != 1 || s[0].Name != "a" {
			t.Fatalf("status %+v, want that of a", s)
		}
	}
}
