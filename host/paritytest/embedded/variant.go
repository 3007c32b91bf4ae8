package embedded

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// A Variant modifies evictd in a way that the kubelet cannot: with custom plugins, or failing ones.
type Variant func(*Setup)

// Setup holds the parts of a manager.
type Setup struct {
	Plugins map[string]eviction.Plugin
	// Summary, if not nil, changes the plugin with the summary's figures.
	Summary func(*eviction.Plugin)
	// Hard holds thresholds in addition to the scenario's.
	Hard map[string]string
	// step is the index of the scenario's step.
	step atomic.Int64
}

var errBroken = errors.New("broken on purpose")

// each modifies the built-in plugins.
func (s *Setup) each(change func(*eviction.Plugin)) {
	for name, p := range s.Plugins {
		change(&p)
		s.Plugins[name] = p
	}
}

type rankerFunc func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error)

func (f rankerFunc) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return f(ctx, req)
}

// RankersFail makes evictctl rank by itself.
func RankersFail(s *Setup) {
	s.each(func(p *eviction.Plugin) {
		p.Ranker = rankerFunc(func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error) { return nil, errBroken })
	})
}

// Comparators makes plugins rank with the SDK's comparators.
func Comparators(s *Setup) {
	s.each(func(p *eviction.Plugin) {
		p.Ranker = rankerFunc(func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
			return sdk.RankBy(rank.For(req.Signal)).Rank(ctx, req)
		})
	})
}

// measured filters the measurements of m; false drops one.
type measured struct {
	eviction.Measurer

	known func(*eviction.Measurement) bool
}

func (m measured) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return m.Measurer.Measure(ctx, req, func(got eviction.Measurement) {
		if m.known(&got) {
			emit(got)
		}
	})
}

// WorkingSetOnly replaces the measurements for memory by those without a figure per signal, which are
// the same.
func WorkingSetOnly(s *Setup) {
	s.Summary = func(p *eviction.Plugin) {
		p.Measurer = measured{p.Measurer, func(m *eviction.Measurement) bool {
			m.Usage = slices.DeleteFunc(m.Usage, func(u eviction.SignalUsage) bool { return u.Signal == eviction.MemoryAvailable })
			return true
		}}
	}
}

// SomeUnmeasured leaves a third of the pods unmeasured.
func SomeUnmeasured(s *Setup) {
	s.Summary = func(p *eviction.Plugin) {
		p.Measurer = measured{p.Measurer, func(m *eviction.Measurement) bool {
			h := fnv.New32()
			_, _ = h.Write([]byte(m.UID))
			return h.Sum32()%3 != 0
		}}
	}
}

// ByQoS adds a vendor's plugin that ranks all signals by QoS class alone.
func ByQoS(s *Setup) {
	p := sdk.Plugin{Name: "qos", Version: "1", Ranker: byClass}
	for _, builtin := range s.Plugins {
		for _, spec := range builtin.Signals {
			p.Signals = append(p.Signals, eviction.SignalSpec{Signal: spec.Signal})
		}
	}
	slices.SortFunc(p.Signals, func(a, b eviction.SignalSpec) int { return cmp.Compare(a.Signal, b.Signal) })
	s.Plugins["qos"] = p
}

// byClass uses the kubelet's figures as reasons.
var byClass = rankerFunc(func(_ context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	order := rank.Sort(req.Candidates, rank.QoS)
	for i := range req.Candidates {
		order[slices.IndexFunc(order, func(r eviction.Ranked) bool { return r.UID == req.Candidates[i].Pod.UID })].Reason = rank.Reason(&req.Candidates[i])
	}
	return order, nil
})

// CustomSignal adds a vendor's plugin with a custom signal, which is never under pressure.
func CustomSignal(s *Setup) {
	const things = "vendor.example/things.free"
	s.Hard = map[string]string{things: "10"}
	s.Plugins["vendor"] = sdk.Plugin{
		Name: "vendor", Version: "1",
		Signals: []eviction.SignalSpec{{Signal: things, Definition: &eviction.Definition{
			Resource: "vendor.example/things", Unit: "things", Format: eviction.FormatDecimalSI, Condition: "vendor.example/ThingPressure",
		}}},
		Observer: observerFunc(func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error) {
			return eviction.ObserveReply{Observations: []eviction.Observation{
				{Signal: things, State: eviction.Observed, Available: 50, Capacity: 100},
			}}, nil
		}),
	}
}

type observerFunc func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)

func (f observerFunc) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return f(ctx, req)
}

// ObserversFail makes all observations fail in some steps.
func ObserversFail(in func(step int) bool) Variant {
	return func(s *Setup) {
		s.Summary = func(p *eviction.Plugin) {
			well := p.Observer
			p.Observer = observerFunc(func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				if in(int(s.step.Load())) {
					return eviction.ObserveReply{}, errBroken
				}
				return well.Observe(ctx, req)
			})
		}
	}
}
