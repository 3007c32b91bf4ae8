package loop

import (
	"testing"
	"time"
)

func TestWhetherTheNodeIsShortIsKnownFromOutside(t *testing.T) {
	for name, c := range map[string]struct {
		available int64
		unknown   bool
		resource  string
		known, is bool
	}{
		"short":                      {gi / 2, false, "memory", true, true},
		"well":                       {4 * gi, false, "memory", true, false},
		"the signal is not known":    {gi / 2, true, "memory", false, false},
		"a resource of no threshold": {gi / 2, false, "pids", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, func(t *testing.T, n *node) {
				n.memory.available = c.available
				if c.unknown {
					n.memory.answers(failing)
				}
				s := settings(t, hard("1Gi"))
				s.DryRun = true
				n.run(s)
				n.after(100 * time.Millisecond)
				if known, is := n.loop.Snapshot().Short(c.resource); known != c.known || is != c.is {
					t.Errorf("known %v, short %v, want %v, %v", known, is, c.known, c.is)
				}
			})
		})
	}
}
