package client

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Answers just below the deadlines put 7 s before every eviction, and were never missed.
func TestSlownessIsAMinutesDelays(t *testing.T) {
	type step struct {
		after, took, limit time.Duration
	}
	var (
		observe   = func(after, took time.Duration) step { return step{after, took, time.Second} }
		liar      = []step{observe(0, 930*time.Millisecond), {0, 4800 * time.Millisecond, 5 * time.Second}}
		repeat    = func(s step, n int) []step { return slices.Repeat([]step{s}, n) }
		interval  = 10 * time.Second
		perMinute = 6
	)
	for name, c := range map[string]struct {
		steps []step
		slow  bool
	}{
		"just below the deadlines, before one eviction":  {liar, true},
		"just below the deadline, on a quiet node":       {repeat(observe(interval, 930*time.Millisecond), perMinute), true},
		"half of the deadline, on a quiet node":          {repeat(observe(interval, 500*time.Millisecond), 100), false},
		"one measurement that takes all of its time":     {[]step{{0, 5 * time.Second, 5 * time.Second}}, false},
		"two of them within a minute":                    {repeat(step{30 * time.Second, 4800 * time.Millisecond, 5 * time.Second}, 2), true},
		"prompt answers to twenty wakes a second":        {repeat(observe(50*time.Millisecond, 40*time.Millisecond), 10_000), false},
		"slow answers among many prompt ones":            {append(repeat(observe(50*time.Millisecond, time.Millisecond), 500), liar...), true},
		"a time that makes no sense does not count more": {[]step{observe(0, time.Hour), observe(0, time.Hour), observe(0, time.Hour)}, false},
	} {
		var s Slowness
		slow, now := false, time.Unix(1_000_000, 0)
		for _, step := range c.steps {
			now = now.Add(step.after)
			slow = s.Add(now, delayCost(step.took, step.limit), false) || slow
		}
		if slow != c.slow || slow && !s.Standby() {
			t.Errorf("%s: slow %v (%+v), want %v", name, slow, s, c.slow)
		}
	}
}

// Whatever comes: a plugin is put on standby only for more than a twentieth of the last
// minute in two answers, comes back after its time, and little is kept of it.
func TestSlownessIsNeverHasty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s Slowness
		now := time.Unix(1_000_000, 0)
		var all []delay
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
			if s.Standby() {
				if began := s.Since; s.Over(now) != !now.Before(began.Add(StandbyFor)) {
					t.Fatalf("on standby since %v, at %v: %+v", began, now, s)
				}
				all = nil
			}
			took := time.Duration(random.Int64N(int64(time.Second)))
			on := s.Add(now, delayCost(took, time.Second), false)
			all = append(all, delay{now, max(0, took-100*time.Millisecond)})
			var sum time.Duration
			n := 0
			for _, d := range all {
				if now.Sub(d.at) < SlowWindow && d.cost > 0 {
					sum += d.cost
					n++
				}
			}
			if want := sum > mostDelay && n >= slowCalls; on != want && !s.Standby() || on && !want {
				t.Fatalf("%v in %d answers: standby %v", sum, n, on)
			}
		}
	}
}

// What a slow machine does is not the plugin's fault.
func TestAHostThatIsLateBlamesNoPlugin(t *testing.T) {
	for name, c := range map[string]struct {
		took  time.Duration
		fired bool // the timer, in time
		late  bool
	}{
		"on time":                         {930 * time.Millisecond, true, false},
		"longer than its own deadline":    {3 * time.Second, true, true},
		"its timer has not fired by then": {930 * time.Millisecond, false, true},
	} {
		w := &stopwatch{start: time.Now().Add(-c.took), due: 100 * time.Millisecond, timer: time.AfterFunc(time.Hour, func() {})}
		if c.fired {
			w.timer.Stop()
		}
		if _, late := w.stop(time.Second); late != c.late {
			t.Errorf("%s: late %v, want %v", name, late, c.late)
		}
	}
}
