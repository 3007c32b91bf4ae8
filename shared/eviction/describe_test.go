package eviction_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/evictd/evictd/shared/eviction"
)

// all is a plugin's every capability, for descriptions only.
type all struct{}

func (all) Observe(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, nil
}

func (all) Rank(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) { return nil, nil }

func (all) Measure(context.Context, eviction.MeasureRequest, func(eviction.Measurement)) error {
	return nil
}

func (all) Watch(context.Context, eviction.WatchRequest, func(eviction.Wake)) error { return nil }

func (all) Reclaim(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return eviction.Reclaimed{}, nil
}

const nvme eviction.Signal = "acme.example/nvme.spare"

func nvmeDefinition() *eviction.Definition {
	return &eviction.Definition{Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/nvme", Condition: "acme.example/NVMePressure"}
}

func TestForOffersWhatIsListedAndThere(t *testing.T) {
	p := eviction.Plugin{
		Signals: []eviction.SignalSpec{
			{Signal: eviction.MemoryAvailable},
			{Signal: eviction.PIDAvailable, Capabilities: eviction.CanRank},
			{Signal: nvme, Capabilities: eviction.CanRank | eviction.CanReclaim},
		},
		Observer: all{},
		Ranker:   all{},
	}
	for signal, want := range map[eviction.Signal]eviction.Capability{
		eviction.MemoryAvailable: eviction.CanObserve | eviction.CanRank, // not narrowed: all that it has
		eviction.PIDAvailable:    eviction.CanRank,
		nvme:                     eviction.CanRank, // it offers to reclaim, but cannot
		eviction.NodeFsAvailable: 0,
	} {
		if got := p.For(signal); got != want {
			t.Errorf("For(%s) = %05b, want %05b", signal, got, want)
		}
	}
	if got := p.Observes(); !slices.Equal(got, []eviction.Signal{eviction.MemoryAvailable}) {
		t.Errorf("it observes %v, want what it offers to observe", got)
	}
	if got := (&eviction.Plugin{Signals: p.Signals, Ranker: all{}}).Observes(); got == nil || len(got) != 0 {
		t.Errorf("one without an Observer observes %#v, want an empty list", got)
	}
	full := eviction.Plugin{Observer: all{}, Measurer: all{}, Watcher: all{}, Ranker: all{}, Reclaimer: all{}}
	if got, want := full.Capabilities(), eviction.CanReclaim<<1-1; got != want {
		t.Errorf("Capabilities of a full plugin = %05b, want %05b", got, want)
	}
	if !full.Capabilities().Has(eviction.CanRank|eviction.CanWatch) || eviction.CanRank.Has(eviction.CanRank|eviction.CanWatch) {
		t.Error("Has does not mean all of")
	}
}

func TestValidate(t *testing.T) {
	memory := []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}
	for name, c := range map[string]struct {
		plugin eviction.Plugin
		want   []string // parts of the error, in order; none: valid
	}{
		"smallest": {eviction.Plugin{Name: "p", Signals: memory, Ranker: all{}}, nil},
		"custom signal with steps": {eviction.Plugin{
			Name: "p", Observer: all{}, Reclaimer: all{}, OwnsLayout: true,
			Signals: []eviction.SignalSpec{{
				Signal: nvme, Definition: nvmeDefinition(),
				ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}, {Name: "shrink"}},
			}},
		}, nil},
		"the zero plugin says all at once": {eviction.Plugin{}, []string{"name is empty", "signals is empty", "no capability"}},
		"listed twice": {
			eviction.Plugin{Name: "p", Signals: append(memory, memory...), Ranker: all{}},
			[]string{`signals[1] "memory.available": listed twice`},
		},
		"offers what it lacks": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable, Capabilities: eviction.CanRank | eviction.CanWatch}}},
			[]string{`signals[0] "memory.available": offers capabilities`},
		},
		"layout without observer": {
			eviction.Plugin{Name: "p", Signals: memory, Ranker: all{}, OwnsLayout: true},
			[]string{"ownsLayout without an Observer"},
		},
		"redefines a built-in signal": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable, Definition: nvmeDefinition()}}},
			[]string{"definition given for a built-in signal"},
		},
		"custom signal without definition, another with a bad name": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: nvme}, {Signal: "spare", Definition: nvmeDefinition()}}},
			[]string{`signals[0] "acme.example/nvme.spare": definition missing`, `signals[1] "spare": signal "spare", want a domain-qualified name`},
		},
		"a condition that is no name of a taint": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: nvme, Definition: &eviction.Definition{
				Unit: "blocks", Format: eviction.FormatDecimalSI, Resource: "acme.example/spare", Condition: "acme.example/Spare-",
			}}}},
			[]string{`condition "acme.example/Spare-", want at most 63 characters after the '/', a letter or digit at both ends`},
		},
		"custom signal with half a definition": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: nvme, Definition: &eviction.Definition{}}}},
			[]string{"unit is empty"},
		},
		"steps without a reclaimer": {
			eviction.Plugin{Name: "p", Ranker: all{}, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}}}}},
			[]string{"reclaim steps without a Reclaimer"},
		},
		"a step twice": {
			eviction.Plugin{Name: "p", Reclaimer: all{}, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable, ReclaimSteps: []eviction.ReclaimStep{{Name: "trim"}, {Name: "trim"}}}}},
			[]string{`reclaim step "trim" is empty or listed twice`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.plugin.Validate()
			if len(c.want) == 0 {
				wantError(t, err, "")
				return
			}
			wantError(t, err, c.want[0])
			if got := strings.Split(err.Error(), "\n"); len(got) != len(c.want) {
				t.Fatalf("got %d lines, want %d:\n%v", len(got), len(c.want), err)
			}
			for i, line := range strings.Split(err.Error(), "\n") {
				if !strings.Contains(line, c.want[i]) {
					t.Errorf("line %d is %q, want %q in it", i, line, c.want[i])
				}
			}
		})
	}
}

func TestUsageFor(t *testing.T) {
	m := eviction.Measurement{Usage: []eviction.SignalUsage{{Signal: eviction.MemoryAvailable, Value: 7}, {Signal: nvme, Value: 9}}}
	if got := m.UsageFor(nvme); got != 9 {
		t.Errorf("UsageFor(%s) = %d, want 9", nvme, got)
	}
	if got := m.UsageFor(eviction.PIDAvailable); got != 0 {
		t.Errorf("UsageFor without a figure = %d, want 0", got)
	}
}
