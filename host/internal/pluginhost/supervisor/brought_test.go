package supervisor

import (
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

func TestAnOwnSignalIsDefinedWhileItsPluginRuns(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "good", "memory"))
	defined := func(s eviction.Signal) (eviction.Definition, bool) {
		p := h.Pin()
		defer p.Release()
		return p.Definition(s)
	}
	const own = "faulty.example/good"
	want := eviction.Definition{Unit: "things", Format: eviction.FormatDecimalSI, Resource: own, Condition: own}
	if d, ok := defined(own); d != want || !ok {
		t.Errorf("%s is %+v, %v; want %+v", own, d, ok, want)
	}
	for _, s := range []eviction.Signal{"faulty.example/other", eviction.MemoryAvailable} {
		if d, ok := defined(s); ok {
			t.Errorf("%s is defined by a plugin, as %+v", s, d)
		}
	}
	drain(h.changed)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"good": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is gone with the plugin", func() bool {
		_, ok := defined(own)
		return !ok
	})
	eventually(t, "the change is told", func() bool { return len(h.changed) == 1 })
}

// Whoever waits for a plugin that does not come up is to learn that it was removed.
func TestTheEndOfAPluginThatNeverServedIsReported(t *testing.T) {
	t.Parallel()
	h := startHost(t, install(t, "exits"))
	drain(h.changed)
	if err := h.Reconfigure(t.Context(), eviction.NodeFacts{}, map[string]Settings{"exits": {Disabled: true}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change is told", func() bool { return len(h.changed) == 1 })
}
