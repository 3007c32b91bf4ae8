package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/core/wake"
	"github.com/evictd/evictd/host/internal/face/metrics"
	"github.com/evictd/evictd/shared/eviction"
)

// A plugin says of each signal how much is available of 8, nothing of one that it has no
// figure of.
type plugin struct {
	name    string
	figures map[eviction.Signal]int64
	err     error
}

func (p *plugin) Observe(_ context.Context, r eviction.ObserveRequest) (reply eviction.ObserveReply, err error) {
	for _, s := range r.Signals {
		if n, known := p.figures[s]; known {
			reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: n, Capacity: max(8, n), Time: time.Now()})
		}
	}
	return reply, p.err
}

// A host reads memory.available by itself: 3 of 8.
type host struct{}

func (host) Whole(s eviction.Signal) eviction.Whole {
	if s != eviction.MemoryAvailable {
		return eviction.Whole{}
	}
	return eviction.Whole{Name: "the machine's memory", Size: 8}
}

func (host) Reads(s eviction.Signal) bool { return s == eviction.MemoryAvailable }

func (host) Observe(_ context.Context, signals []eviction.Signal) (out []eviction.Observation) {
	for _, s := range signals {
		out = append(out, eviction.Observation{Signal: s, State: eviction.Observed, Available: 3, Capacity: 8, Time: time.Now()})
	}
	return out
}

func (host) Measure(context.Context, eviction.Signal, []eviction.Pod) []eviction.Measurement {
	return nil
}

// look has a full pass look at the signals of thresholds, and returns how much is
// available of each by whose word.
func look(t *testing.T, o *Observer, signals []eviction.Signal, plugins ...*plugin) map[eviction.Signal]string {
	t.Helper()
	config := policy.ThresholdConfig{Hard: map[string]string{}}
	for _, s := range signals {
		config.Hard[string(s)] = "5"
	}
	thresholds, err := policy.ParseThresholds(config)
	if err != nil {
		t.Fatal(err)
	}
	o.Configure(Config{Thresholds: thresholds})
	var running []registry.Plugin
	for _, p := range plugins {
		said := &eviction.Plugin{Name: p.name, Observer: p}
		for _, s := range signals {
			said.Signals = append(said.Signals, eviction.SignalSpec{Signal: s})
		}
		running = append(running, registry.Plugin{Name: p.name, Said: said, Instance: &registry.Instance{Name: p.name, Plugin: said}})
	}
	current := registry.NewCurrent()
	current.Publish(registry.New(running, nil))
	if _, err := o.Look(t.Context(), Request{Pin: current.Pin(), Scope: wake.Scope{Full: true}}); err != nil {
		t.Fatal(err)
	}
	got := map[eviction.Signal]string{}
	for _, s := range o.Statuses() {
		got[s.Signal] = s.State
		if s.State == decision.StateObserved {
			got[s.Signal] = fmt.Sprint(s.Available, " by ", s.ObservedBy)
		}
	}
	return got
}

func newObserver(t *testing.T, fallback Fallback) *Observer {
	return New(Options{Metrics: metrics.New("test", ""), Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Now: time.Now, Fallback: fallback})
}

func TestWhoseFigureCounts(t *testing.T) {
	of := func(name string, s eviction.Signal, n int64) *plugin {
		return &plugin{name: name, figures: map[eviction.Signal]int64{s: n}}
	}
	const memory, disk = eviction.MemoryAvailable, eviction.NodeFsAvailable
	for name, c := range map[string]struct {
		signal  eviction.Signal
		plugins []*plugin
		want    string
	}{
		"the built-in plugin's":                            {memory, []*plugin{of("memory", memory, 4)}, "4 by memory"},
		"of what the kernel tells the worse one":           {memory, []*plugin{of("acme", memory, 7), of("memory", memory, 4)}, "4 by memory"},
		"which may be the custom one":                      {memory, []*plugin{of("acme", memory, 2), of("memory", memory, 4)}, "2 by acme"},
		"of filesystems that of the custom plugin":         {disk, []*plugin{of("acme", disk, 7), of("disk", disk, 4)}, "7 by acme"},
		"and the next one's if it has none":                {disk, []*plugin{of("acme", "", 7), of("disk", disk, 4)}, "4 by disk"},
		"and if it fails":                                  {disk, []*plugin{{name: "acme", err: errors.New("broken")}, of("disk", disk, 4)}, "4 by disk"},
		"nobody's where none is":                           {disk, []*plugin{of("acme", "", 7)}, decision.StateUnknown},
		"no more than the machine has":                     {memory, []*plugin{of("acme", memory, 9)}, decision.StateUnknown},
		"which hides no shortage":                          {memory, []*plugin{of("acme", memory, 9), of("memory", memory, 4)}, "4 by memory"},
		"a custom plugin's of a disk of its own":           {disk, []*plugin{of("acme", disk, 9)}, "9 by acme"},
		"the host's beside a custom one without the other": {memory, []*plugin{of("acme", memory, 7)}, "3 by " + HostItself},
	} {
		t.Run(name, func(t *testing.T) {
			if got := look(t, newObserver(t, host{}), []eviction.Signal{c.signal}, c.plugins...)[c.signal]; got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A plugin that restarts is back within a second; then the node must not go on blind.
func TestTheHostReadsWhatIsUnobservedForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newObserver(t, host{})
		signals := []eviction.Signal{eviction.MemoryAvailable, eviction.NodeFsAvailable}
		silent := &plugin{name: "memory"}
		if got := look(t, o, signals, silent); got[eviction.MemoryAvailable] != decision.StateUnknown {
			t.Errorf("at once %v, want it unknown", got)
		}
		if at := o.LookAt(time.Now()); len(at) != 1 || !at[0].Equal(time.Now().Add(unknownFor)) {
			t.Errorf("looks again at %v, want in %v", at, unknownFor)
		}
		time.Sleep(unknownFor)
		got := look(t, o, signals, silent)
		if got[eviction.MemoryAvailable] != "3 by "+HostItself || got[eviction.NodeFsAvailable] != decision.StateUnknown {
			t.Errorf("a second later %v, want memory read by the host and no disk", got)
		}
		silent.figures = map[eviction.Signal]int64{eviction.MemoryAvailable: 6, eviction.NodeFsAvailable: 6}
		got = look(t, o, signals, silent)
		if got[eviction.MemoryAvailable] != "6 by memory" || o.Unobserved(eviction.NodeFsAvailable) || len(o.LookAt(time.Now())) != 0 {
			t.Errorf("when it is back %v, want its figures", got)
		}
	})
}

func TestTheTimeThatIsLeftIsOfTwoSamples(t *testing.T) {
	type sample struct {
		after     time.Duration
		available int64
	}
	for name, c := range map[string]struct {
		samples []sample
		left    time.Duration
	}{
		"one sample":                {[]sample{{0, 1000}}, 0},
		"it falls":                  {[]sample{{0, 1000}, {time.Second, 600}}, 1500 * time.Millisecond},
		"it rises":                  {[]sample{{0, 600}, {time.Second, 1000}}, 0},
		"nothing is left":           {[]sample{{0, 600}, {time.Second, 0}}, 1},
		"beyond the capacity":       {[]sample{{0, 600}, {time.Second, -50}}, 1},
		"two samples of one moment": {[]sample{{0, 1000}, {time.Second, 600}, {time.Millisecond, 590}}, 1440463414},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newObserver(t, nil)
				for _, s := range c.samples {
					time.Sleep(s.after)
					look(t, o, []eviction.Signal{eviction.MemoryAvailable}, &plugin{name: "memory", figures: map[eviction.Signal]int64{eviction.MemoryAvailable: s.available}})
				}
				if got := o.Left(eviction.MemoryAvailable); got != c.left {
					t.Errorf("%d, want %d", got, c.left)
				}
			})
		})
	}
}

// After a step back of the clock a call had the least deadline, as if nothing were left.
func TestAClockThatIsSetBackTellsNoPace(t *testing.T) {
	o, now := newObserver(t, nil), time.Now()
	of := o.of(eviction.MemoryAvailable)
	of.before = eviction.Observation{State: eviction.Observed, Available: 1000, Time: now.Add(time.Hour)}
	of.observation = eviction.Observation{State: eviction.Observed, Available: 900, Time: now}
	if left := o.Left(eviction.MemoryAvailable); left != 0 {
		t.Errorf("%v is left, want it unknown", left)
	}
}

func TestWhoDoesNotAnswerIsNotWaitedForTwice(t *testing.T) {
	var r Responsiveness
	a, b := &registry.Instance{Name: "a"}, &registry.Instance{Name: "b"}
	late := fmt.Errorf("observe: %w", context.DeadlineExceeded)
	measured := func(i *registry.Instance, err error) (bounded bool) {
		_ = r.Measure(t.Context(), i, 0, func(ctx context.Context) error {
			_, bounded = ctx.Deadline()
			return err
		})
		return bounded
	}
	bounded := func(i *registry.Instance) bool { return measured(i, nil) }
	measured(a, late)
	if bounded(a) || r.Unresponsive(a) {
		t.Error("whoever observes may be slow to measure")
	}
	r.observed(map[*registry.Instance]error{a: late, b: nil})
	if !bounded(a) || r.Unresponsive(a) || bounded(b) {
		t.Error("want that a alone, who has not observed, gets little time to measure")
	}
	measured(a, late)
	r.observed(map[*registry.Instance]error{a: late})
	if !r.Unresponsive(a) {
		t.Error("want that who does neither is asked no more")
	}
	r.observed(map[*registry.Instance]error{a: errors.New("refused")})
	if bounded(a) || r.Unresponsive(a) {
		t.Error("want that who answers, whatever it is, is asked again")
	}
}
