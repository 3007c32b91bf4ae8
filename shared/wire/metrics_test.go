package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evictd/evictd/shared/eviction"
)

type meter func(context.Context) ([]eviction.Metric, error)

func (m meter) Metrics(ctx context.Context) ([]eviction.Metric, error) { return m(ctx) }

func metered(t *testing.T, m eviction.Meter) eviction.Plugin {
	t.Helper()
	return connect(t, eviction.Plugin{Name: "p", Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}, Ranker: &fake{}, Meter: m})
}

func TestMetricsCrossTheWire(t *testing.T) {
	want := []eviction.Metric{
		{Name: "lookups_total", Help: "Lookups.", Type: eviction.Counter, Samples: []eviction.Sample{{Labels: map[string]string{"result": "hit"}, Value: 3}, {Labels: map[string]string{"result": "miss"}, Value: 0.5}}},
		{Name: "depth", Samples: []eviction.Sample{{Value: -1}}},
	}
	p := metered(t, meter(func(context.Context) ([]eviction.Metric, error) { return want, nil }))
	got, err := p.Meter.Metrics(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if p := metered(t, nil); p.Meter != nil {
		t.Error("a plugin without metrics has some")
	}
	p = metered(t, meter(func(context.Context) ([]eviction.Metric, error) { return nil, errors.New("no device") }))
	if _, err := p.Meter.Metrics(t.Context()); !errors.Is(err, eviction.ErrRefused) || !strings.Contains(err.Error(), "no device") {
		t.Errorf("error %v, want the refusal", err)
	}
}

// Whatever a plugin sends as metrics: what breaks a bound is an invalid reply as a whole.
func TestMetricsOutOfBoundsAreRefused(t *testing.T) {
	one := func(name string, samples ...eviction.Sample) []eviction.Metric {
		return []eviction.Metric{{Name: name, Samples: samples}}
	}
	many := func(n int) (all []eviction.Sample) {
		for i := range n {
			all = append(all, eviction.Sample{Labels: map[string]string{"n": fmt.Sprint(i)}, Value: 1})
		}
		return all
	}
	long := many(eviction.MaxSamples)
	for i := range long {
		long[i].Labels["x"], long[i].Labels["y"] = strings.Repeat("x", 128), strings.Repeat("y", 128)
	}
	for name, all := range map[string][]eviction.Metric{
		"no name":           one(""),
		"a name of others":  one("Evictd:up"),
		"a long name":       one(strings.Repeat("a", 64)),
		"a name twice":      append(one("a"), one("a")...),
		"too many samples":  one("a", many(eviction.MaxSamples+1)...),
		"too many in all":   append(one("a", many(40)...), one("b", many(40)...)...),
		"not a number":      one("a", eviction.Sample{Value: math.NaN()}),
		"infinite":          one("a", eviction.Sample{Value: math.Inf(1)}),
		"the host's label":  one("a", eviction.Sample{Labels: map[string]string{"plugin": "memory"}}),
		"a label of markup": one("a", eviction.Sample{Labels: map[string]string{"<b>": "x"}}),
		"an empty value":    one("a", eviction.Sample{Labels: map[string]string{"x": ""}}),
		"a long value":      one("a", eviction.Sample{Labels: map[string]string{"x": strings.Repeat("v", 129)}}),
		"the same twice":    one("a", eviction.Sample{Labels: map[string]string{"x": "1"}}, eviction.Sample{Labels: map[string]string{"x": "1"}}),
		"a long help":       {{Name: "a", Help: strings.Repeat("h", 2000)}},
		"more than 16 KiB":  {{Name: "a", Help: strings.Repeat("h", eviction.MaxMetricsBytes)}},
		"18 KiB of labels":  one("a", long...),
		"10,000 series":     one("a", many(10_000)...),
		"too many labels":   one("a", eviction.Sample{Labels: map[string]string{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": "", "h": "", "i": ""}}),
	} {
		p := metered(t, meter(func(context.Context) ([]eviction.Metric, error) { return all, nil }))
		if got, err := p.Meter.Metrics(t.Context()); !errors.Is(err, eviction.ErrInvalidReply) || got != nil {
			t.Errorf("%s: %d metrics, error %v, want an invalid reply", name, len(got), err)
		}
	}
	p := metered(t, meter(func(context.Context) ([]eviction.Metric, error) { return one("a", many(eviction.MaxSamples)...), nil }))
	if got, err := p.Meter.Metrics(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("at the bound: %d metrics, %v", len(got), err)
	}
}

// A host that would evict pods which a plugin does not name is refused, with a text.
func TestAnOlderHostIsRefusedForCandidatesOfARanking(t *testing.T) {
	spec := eviction.SignalSpec{Signal: "acme.example/scratch", Definition: &eviction.Definition{
		Unit: eviction.UnitBytes, Format: eviction.FormatBinarySI, Resource: "acme.example/scratch", Condition: "acme.example/ScratchPressure", Candidates: eviction.RankedPods,
	}}
	p := eviction.Plugin{Name: "p", Signals: []eviction.SignalSpec{spec}, Ranker: &fake{}}
	s := NewGRPCServer(nil)
	Register(s, p)
	client := NewClient(start(t, s))
	if _, err := client.Describe(t.Context(), eviction.Host{Version: "1.0"}); !errors.Is(err, eviction.ErrRefused) || !strings.Contains(err.Error(), "the host lacks candidate-scope") {
		t.Errorf("error %v, want a refusal", err)
	}
	got, err := client.Describe(t.Context(), eviction.Host{Features: eviction.Features()})
	if err != nil || got.Signals[0].Definition.Candidates != eviction.RankedPods {
		t.Errorf("%+v, %v", got.Signals, err)
	}
	p.Ranker, p.Observer = nil, layoutObserver{}
	if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "does not rank the signal") {
		t.Errorf("error %v, want that it must rank", err)
	}
}
