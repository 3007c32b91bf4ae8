package policy

import (
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

const giBytes = int64(1) << 30

func TestContradict(t *testing.T) {
	figure := func(available, capacity int64) eviction.Observation {
		return eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available, Capacity: capacity}
	}
	absent := eviction.Observation{Signal: eviction.MemoryAvailable, State: eviction.Absent}
	thresholds, err := ParseThresholds(ThresholdConfig{Hard: map[string]string{"memory.available": "1Gi"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		a, b       eviction.Observation
		yes, known bool
	}{
		"the same":                       {figure(4*giBytes, 8*giBytes), figure(4*giBytes, 8*giBytes), false, true},
		"of moments that differ":         {figure(4*giBytes, 8*giBytes), figure(4*giBytes-giBytes/100, 8*giBytes), false, true},
		"plenty":                         {figure(6*giBytes, 8*giBytes), figure(4*giBytes, 8*giBytes), true, true},
		"on both sides of the threshold": {figure(giBytes, 800*giBytes), figure(giBytes-1, 800*giBytes), true, true},
		"another capacity":               {figure(4*giBytes, 8*giBytes), figure(4*giBytes, 16*giBytes), true, true},
		"absent":                         {absent, figure(4*giBytes, 8*giBytes), true, true},
		"both absent":                    {absent, absent, false, true},
		"one could not look":             {figure(6*giBytes, 8*giBytes), eviction.Observation{}, false, false},
		"the ends of int64":              {figure(-1<<63, 1<<62), figure(1<<62, 1<<62), true, true},
	} {
		for _, pair := range [][2]eviction.Observation{{c.a, c.b}, {c.b, c.a}} {
			if yes, known := Contradict(thresholds, pair[0], pair[1]); yes != c.yes || known != c.known {
				t.Errorf("%s: %v, known %v, want %v, %v", name, yes, known, c.yes, c.known)
			}
		}
	}
}

// Figures of different moments differ: only a lasting one is reported, and it is over when it
// has been over for as long.
func TestAContradictionIsLasting(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	look := func(c Contradiction, at time.Duration, yes bool, want bool) Contradiction {
		t.Helper()
		if c = c.Next(start.Add(at), yes); c.Lasting != want {
			t.Errorf("after %v: lasting %v, want %v", at, c.Lasting, want)
		}
		return c
	}
	var c Contradiction
	for n := range 60 { // now and then, for an hour
		c = look(c, time.Duration(2*n)*30*time.Second, true, false)
		c = look(c, time.Duration(2*n+1)*30*time.Second, false, false)
	}
	c = look(c, 2*time.Hour, true, false)
	c = look(c, 2*time.Hour+30*time.Second, true, false)
	c = look(c, 2*time.Hour+time.Minute, true, true)
	if !c.Since.Equal(start.Add(2 * time.Hour)) {
		t.Errorf("since %v, want since the first look that found it", c.Since)
	}
	c = look(c, 2*time.Hour+70*time.Second, false, true)
	c = look(c, 2*time.Hour+80*time.Second, true, true)
	for _, after := range []time.Duration{90, 100, 149} {
		c = look(c, 2*time.Hour+after*time.Second, false, true)
	}
	look(c, 2*time.Hour+150*time.Second, false, false)

	var rare Contradiction // two looks are a coincidence, however far apart
	rare = look(rare, 0, true, false)
	rare = look(rare, time.Hour, true, false)
	rare = look(rare, -time.Hour, true, false) // the clock was set back
	look(rare, time.Minute-time.Hour, true, false)
}
