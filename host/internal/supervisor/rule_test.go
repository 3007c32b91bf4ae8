package supervisor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func TestVerdict(t *testing.T) {
	timeout := fmt.Errorf("observe: %w", context.DeadlineExceeded)
	for name, c := range map[string]struct {
		err  error
		took time.Duration
		want verdict
	}{
		"an answer":                    {nil, time.Millisecond, answered},
		"a refusal is an answer":       {eviction.ErrRefused, time.Millisecond, answered},
		"rubbish is an answer":         {eviction.ErrInvalidReply, time.Millisecond, answered},
		"no answer":                    {timeout, 1001 * time.Millisecond, missed},
		"the caller's shorter one":     {timeout, 10 * time.Millisecond, excused},
		"our own timer was late":       {timeout, 3 * time.Second, excused},
		"an answer that came late":     {nil, 3 * time.Second, answered},
		"the caller gave up":           {context.Canceled, time.Millisecond, excused},
		"a dead socket of a live host": {eviction.ErrUnavailable, time.Millisecond, missed},
	} {
		if got := judge(c.err, c.took, time.Second); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestMissesInARow(t *testing.T) {
	type step struct {
		call    call
		verdict verdict
		tooMany bool
	}
	for name, steps := range map[string][]step{
		"three of any kind":    {{callObserve, missed, false}, {callMeasure, missed, false}, {callRank, missed, true}},
		"an answer in between": {{callObserve, missed, false}, {callObserve, missed, false}, {callObserve, answered, false}, {callObserve, missed, false}},
		"excuses do not count": {{callObserve, missed, false}, {callObserve, missed, false}, {callObserve, excused, false}, {callObserve, missed, true}},
		"one kind that always hangs": {
			{callRank, missed, false}, {callObserve, answered, false}, {callRank, missed, false}, {callObserve, answered, false}, {callRank, missed, true},
		},
	} {
		var m misses
		for n, s := range steps {
			if got := m.add(s.call, s.verdict); got != s.tooMany {
				t.Errorf("%s, step %d: got %v", name, n, got)
			}
		}
	}
}

func TestCrashes(t *testing.T) {
	p := defaultPatience()
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

func TestConflict(t *testing.T) {
	plugin := func(c eviction.Capability, signals ...eviction.SignalSpec) *eviction.Plugin {
		p := eviction.Plugin{Signals: signals}
		if c.Has(eviction.CanObserve) {
			p.Observer = guard{}
		}
		if c.Has(eviction.CanRank) {
			p.Ranker = guard{}
		}
		return &p
	}
	memory := eviction.SignalSpec{Signal: eviction.MemoryAvailable}
	own := func(unit eviction.Unit) eviction.SignalSpec {
		return eviction.SignalSpec{Signal: "a.example/x", Definition: &eviction.Definition{Unit: unit}}
	}
	observer, ranker := plugin(eviction.CanObserve, memory), plugin(eviction.CanRank, memory)
	for name, c := range map[string]struct {
		a, b     claim
		assigned bool
		want     string
	}{
		"custom beside built-in":    {claim{"memory", ranker}, claim{"oldest", ranker}, false, ""},
		"different capabilities":    {claim{"watcher", observer}, claim{"oldest", ranker}, false, ""},
		"two custom":                {claim{"youngest", ranker}, claim{"oldest", ranker}, false, `"oldest" and "youngest" both offer rank memory.available`},
		"two built-in":              {claim{"memory", ranker}, claim{"pid", ranker}, false, "both offer rank memory.available"},
		"the same own signal":       {claim{"a", plugin(eviction.CanObserve, own("u"))}, claim{"b", plugin(eviction.CanRank, own("u"))}, false, ""},
		"an own signal, two senses": {claim{"a", plugin(eviction.CanObserve, own("u"))}, claim{"b", plugin(eviction.CanRank, own("v"))}, false, "define a.example/x differently"},
		"two custom, assigned":      {claim{"youngest", ranker}, claim{"oldest", ranker}, true, ""},
		"two senses, assigned":      {claim{"a", plugin(eviction.CanObserve, own("u"))}, claim{"b", plugin(eviction.CanRank, own("v"))}, true, "define a.example/x differently"},
	} {
		err := conflict(c.a, c.b, func(offer) bool { return c.assigned })
		if (err == nil) != (c.want == "") {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		} else if err != nil {
			want(t, err.Error(), c.want)
		}
	}
}

func TestCheckReplies(t *testing.T) {
	asked := []eviction.Signal{eviction.MemoryAvailable}
	r, err := checkObservations(asked, false, false, eviction.ObserveReply{
		Observations: []eviction.Observation{{Signal: eviction.MemoryAvailable, State: eviction.Observed, Capacity: -1}},
		Layout:       &eviction.LayoutReport{},
	})
	want(t, fmt.Sprint(err), "capacity -1", "layout from a plugin that does not own it")
	if r.Layout != nil || r.Observations[0].State != eviction.Unknown || r.Observations[0].Err == "" {
		t.Errorf("got %+v, want no layout and an unknown observation with a reason", r)
	}
	m := eviction.Measurement{UID: "a", State: eviction.Measured, Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: -1}}}
	if err := checkMeasurement(&m); !errors.Is(err, eviction.ErrInvalidReply) || m.State != eviction.MeasurementUnknown || m.UID != "a" {
		t.Errorf("got %+v, %v, want an unknown measurement", m, err)
	}
}
