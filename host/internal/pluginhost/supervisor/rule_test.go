package supervisor

import (
	"testing"
	"time"
)

func TestCrashes(t *testing.T) {
	p := defaultRestartPolicy()
	now := time.Unix(1_000_000, 0)
	c := newCrashes(p)
	for n := 1; n < p.crashes; n++ {
		now = now.Add(time.Second)
		wait, quarantine := c.next(now, 0, true)
		if quarantine || wait < p.first || wait > p.longest {
			t.Errorf("crash %d: wait %s, quarantine %v", n, wait, quarantine)
		}
		if n == 1 && wait > 300*time.Millisecond {
			t.Errorf("first wait %s, want at most 300ms: it has to be back within a second", wait)
		}
	}
	if wait, quarantine := c.next(now, 0, true); !quarantine || wait != p.window {
		t.Errorf("crash %d: wait %s, quarantine %v, want quarantine for %s", p.crashes, wait, quarantine, p.window)
	}
	if wait, quarantine := c.next(now.Add(p.window), 0, true); quarantine || wait > 300*time.Millisecond {
		t.Errorf("second chance: wait %s, quarantine %v, want a fresh start", wait, quarantine)
	}

	c = newCrashes(p)
	for n := range 20 { // One every three minutes: never five in ten.
		if _, quarantine := c.next(now.Add(time.Duration(n)*3*time.Minute), 3*time.Minute, true); quarantine {
			t.Errorf("quarantine after %d crashes that were far apart", n)
		}
	}
	c = newCrashes(p)
	for n := range 20 {
		wait, quarantine := c.next(now, 0, false)
		if quarantine || wait > p.longest {
			t.Errorf("kill %d for timeouts: wait %s, quarantine %v, want neither quarantine nor more than %s", n, wait, quarantine, p.longest)
		}
	}
}
