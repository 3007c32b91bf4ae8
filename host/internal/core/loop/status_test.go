package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/host/internal/core/observe"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/shared/eviction"
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

// What noticed a wake was only in the log.
func TestWhatWokeEvictdStaysInTheStatus(t *testing.T) {
	of := func(memory, pid string) []observe.SignalStatus {
		s := []observe.SignalStatus{{WokenBy: memory}, {WokenBy: pid}}
		s[0].Signal, s[1].Signal = eviction.MemoryAvailable, eviction.PIDAvailable
		return s
	}
	woken := func(cause string) wake.Scope {
		return wake.Scope{Woken: map[eviction.Condition]string{eviction.MemoryPressure: cause}}
	}
	for name, c := range map[string]struct {
		former []observe.SignalStatus
		scope  wake.Scope
		want   []observe.SignalStatus
	}{
		"nothing yet":                   {nil, wake.Scope{Full: true}, of("", "")},
		"a watch that begins":           {nil, woken(wake.CauseWatchStarted), of("", "")},
		"a wake":                        {of("", "poll"), woken("psi"), of("psi", "poll")},
		"a pass that nothing woke":      {of("memory.events", "poll"), wake.Scope{Full: true}, of("memory.events", "poll")},
		"a signal without a former one": {of("psi", "")[:1], wake.Scope{Full: true}, of("psi", "")},
	} {
		if diff := cmp.Diff(c.want, wokenBy(of("", ""), c.former, c.scope)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
