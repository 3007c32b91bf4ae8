package supervisor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/shared/eviction"
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
		var s slowness
		slow, now := false, time.Unix(1_000_000, 0)
		for _, step := range c.steps {
			now = now.Add(step.after)
			slow = s.add(now, step.took, step.limit) || slow
		}
		if slow != c.slow || slow && !s.standby() {
			t.Errorf("%s: slow %v (%+v), want %v", name, slow, s, c.slow)
		}
	}
}

// Whatever comes: a plugin is put on standby only for more than a twentieth of the last
// minute in two answers, comes back after its time, and little is kept of it.
func TestSlownessIsNeverHasty(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s slowness
		now := time.Unix(1_000_000, 0)
		var all []delay
		for range 200 {
			now = now.Add(time.Duration(random.Int64N(int64(20 * time.Second))))
			if s.standby() {
				if began := s.since; s.over(now) != !now.Before(began.Add(standbyFor)) {
					t.Fatalf("on standby since %v, at %v: %+v", began, now, s)
				}
				all = nil
			}
			took := time.Duration(random.Int64N(int64(time.Second)))
			on := s.add(now, took, time.Second)
			all = append(all, delay{now, max(0, took-100*time.Millisecond)})
			var sum time.Duration
			n := 0
			for _, d := range all {
				if now.Sub(d.at) < slowWindow && d.cost > 0 {
					sum += d.cost
					n++
				}
			}
			if want := sum > mostDelay && n >= slowCalls; on != want && !s.standby() || on && !want {
				t.Fatalf("%v in %d answers: standby %v", sum, n, on)
			}
		}
	}
}

// What a slow machine does is not the plugin's fault.
func TestAHostThatIsLateBlamesNobody(t *testing.T) {
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

// A custom plugin whose answers are slow loses its place to the built-in one, is told
// of, and gets it back. Where all are slow it is as if none was.
func TestASlowLiarIsAskedAfterAllOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := func(after time.Duration) eviction.Plugin {
			return inside{observe: func(context.Context) (eviction.ObserveReply, error) {
				time.Sleep(after)
				return eviction.ObserveReply{}, nil
			}, rank: inOrder}.plugin()
		}
		log := &syncBuffer{}
		m := standbys{}
		s, err := InProcess(map[string]eviction.Plugin{"acme": answer(930 * time.Millisecond), "memory": answer(940 * time.Millisecond)},
			Options{Log: slog.New(slog.NewTextHandler(log, nil)), Metrics: m})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- s.Run(ctx) }()
		<-s.Started()
		who := func(c eviction.Capability) string {
			p := s.Pin()
			defer p.Release()
			var names []string
			for _, i := range p.Providers(eviction.MemoryAvailable, c) {
				names = append(names, i.Name)
			}
			return strings.Join(names, " ")
		}
		pass := func(n int) {
			for range n {
				p := s.Pin()
				_, _ = p.Providers(eviction.MemoryAvailable, eviction.CanObserve)[0].Plugin.Observer.Observe(t.Context(), eviction.ObserveRequest{})
				p.Release()
				time.Sleep(10 * time.Second)
			}
		}
		check := func(when, order string, slow ...string) {
			t.Helper()
			if got := who(eviction.CanObserve); got != order || who(eviction.CanRank) != order {
				t.Errorf("%s: asked are %q, want %q", when, got, order)
			}
			for _, st := range s.Status() {
				on := slices.Contains(slow, st.Name)
				if (st.Standby != nil) != on || m[st.Name] != on || st.State != Running {
					t.Errorf("%s: %s is %s, standby %+v, metric %v, want standby %v", when, st.Name, st.State, st.Standby, m[st.Name], on)
				}
			}
		}
		pass(3)
		check("at first", "acme memory")
		pass(1)
		check("after a slow minute", "memory acme", "acme")
		if n := strings.Count(log.String(), "answers too slowly"); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		s.Reassign(ranks("acme"))
		check("assigned", "memory acme", "acme")
		why := (&testHost{t: t, Supervisor: s}).roles("rank", eviction.MemoryAvailable, 0)["memory"]
		if !strings.Contains(why, "in charge: others answer too slowly; assigned to acme, which answers too slowly") {
			t.Errorf("memory is %s", why)
		}
		s.Reassign(nil)
		pass(4) // by memory, which is slow too
		check("both are slow", "acme memory", "acme", "memory")
		time.Sleep(standbyFor)
		check("tried again", "acme memory")
		cancel()
		<-done
	})
}

// standbys is which plugins are on standby by the metric.
type standbys map[string]bool

func (m standbys) PluginUp(string, bool)               {}
func (m standbys) PluginGone(string)                   {}
func (m standbys) PluginRestarted(string)              {}
func (m standbys) PluginStandby(name string, yes bool) { m[name] = yes }
