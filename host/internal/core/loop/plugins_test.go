package loop

import (
	"context"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

// plugins are those of a node.
type plugins struct {
	mu      *sync.Mutex
	current *registry.Current
	changed chan struct{}
	// custom go before builtin.
	custom, builtin []*registry.Instance
	// down holds the errors of signals that are down, starting has memory's plugin start for the
	// first time, and assigned is a signal which the first plugin is assigned to observe.
	down     map[eviction.Signal]error
	starting bool
	assigned eviction.Signal
	// slow are those on standby.
	slow map[string]bool
	// configs are their configurations, which may enable steps.
	configs map[string]string
}

func newPlugins(mu *sync.Mutex, m *memory) *plugins {
	p := &plugins{mu: mu, current: registry.NewCurrent(), changed: make(chan struct{}, 1)}
	p.builtin = []*registry.Instance{{Name: "memory", Generation: 1, Plugin: &eviction.Plugin{
		Name: "memory", Observer: m, Measurer: m, Watcher: m,
		Ranker: ranker(func(r eviction.RankRequest) ([]eviction.Ranked, error) {
			return rank.Sort(r.Candidates, rank.For(r.Signal)), nil
		}),
		Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}},
	}}}
	return p
}

// add puts a custom plugin before the built-in ones.
func (p *plugins) add(of *eviction.Plugin) *registry.Instance {
	i := &registry.Instance{Name: of.Name, Generation: uint64(100 + len(p.custom)), Plugin: of}
	p.custom = append(p.custom, i)
	return i
}

func (p *plugins) addRanker(name string, f ranker) {
	p.add(&eviction.Plugin{Name: name, Ranker: f, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}})
}

func (p *plugins) addObserver(f observer) {
	p.add(&eviction.Plugin{Name: "acme", Observer: f, Signals: []eviction.SignalSpec{{Signal: eviction.MemoryAvailable}}})
}

// addStep adds a custom plugin that has a step of reclaim for signals.
func (p *plugins) addStep(name, step string, f reclaimer, signals ...eviction.Signal) {
	of := &eviction.Plugin{Name: name, Reclaimer: f}
	for _, s := range signals {
		of.Signals = append(of.Signals, eviction.SignalSpec{Signal: s, ReclaimSteps: []eviction.ReclaimStep{{Name: step}}})
	}
	p.add(of)
}

// leave takes the memory plugin's process away, to come back if there is a reason for its
// absence.
func (p *plugins) leave(why error) {
	p.builtin, p.down = nil, map[eviction.Signal]error{eviction.MemoryAvailable: why}
}

// changes tells the loop that the set of plugins has changed.
func (p *plugins) changes() {
	p.mu.Lock()
	p.mu.Unlock() //nolint:staticcheck // as in after
	p.changed <- struct{}{}
	synctest.Wait()
}

// pin pins the plugins as they are now.
func (p *plugins) pin() *registry.Pin {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []registry.Plugin
	for _, i := range slices.Concat(p.custom, p.builtin) {
		all = append(all, registry.Plugin{Name: i.Name, Instance: i, Said: i.Plugin, Slow: p.slow[i.Name], Config: p.configs[i.Name]})
	}
	for s, why := range p.down {
		all = append(all, registry.Plugin{Name: "down", Missing: why, Observes: []eviction.Signal{s}})
	}
	if p.starting {
		all = append(all, registry.Plugin{Name: "starting", Missing: errBroken, Observes: []eviction.Signal{eviction.MemoryAvailable}, FirstStart: true})
	}
	assignment := registry.Assignment{}
	if p.assigned != "" {
		assignment[p.assigned] = map[string]string{"observe": all[0].Name}
	}
	p.current.Publish(registry.New(all, assignment))
	return p.current.Pin()
}

// A memory is the memory plugin, and the figure that it tells.
type memory struct {
	mu        *sync.Mutex
	did       *diary
	usage     map[string]int64
	available int64
	observe   func() (eviction.ObserveReply, error) // overrides available
	measure   error
	wakes     []func(eviction.Wake)
	watched   [][]eviction.WatchThreshold
}

// Observe implements eviction.Observer.
func (m *memory) Observe(_ context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.observe != nil {
		return m.observe()
	}
	m.did.note("observe")
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: r.Signals[0], State: eviction.Observed, Available: m.available, Capacity: 8 * gi, Time: time.Now(),
	}}}, nil
}

// Measure implements eviction.Measurer.
func (m *memory) Measure(_ context.Context, r eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.measure != nil {
		return m.measure
	}
	for _, p := range r.Pods {
		emit(eviction.Measurement{
			UID: p.UID, State: eviction.Measured, WorkingSetBytes: eviction.Some(m.usage[p.UID]),
			Usage: []eviction.SignalUsage{{Signal: r.Signals[0], Value: m.usage[p.UID]}},
		})
	}
	return nil
}

// Watch implements eviction.Watcher.
func (m *memory) Watch(ctx context.Context, r eviction.WatchRequest, wake func(eviction.Wake)) error {
	m.mu.Lock()
	m.wakes = append(m.wakes, wake)
	m.watched = append(m.watched, r.Thresholds)
	m.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (m *memory) set(available int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.available = available
}

// falls sets the figure and wakes the loop, as the plugin would.
func (m *memory) falls(available int64) {
	m.set(available)
	m.wake()
}

func (m *memory) wake() {
	m.mu.Lock()
	wake := m.wakes[len(m.wakes)-1]
	m.mu.Unlock()
	wake(eviction.Wake{Signal: eviction.MemoryAvailable, Cause: "test"})
}

// answers has observe answer in place of the figure, if it is not nil.
func (m *memory) answers(observe func() (eviction.ObserveReply, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observe = observe
}

// unknownFor has the figure unknown for some time.
func (m *memory) unknownFor(d time.Duration) {
	m.answers(failing)
	time.AfterFunc(d, func() { m.answers(nil) })
}

// figure answers with one figure of a time.
func figure(available, capacity int64, at time.Time) (eviction.ObserveReply, error) {
	return eviction.ObserveReply{Observations: []eviction.Observation{{
		Signal: eviction.MemoryAvailable, State: eviction.Observed, Available: available, Capacity: capacity, Time: at,
	}}}, nil
}

func failing() (eviction.ObserveReply, error) {
	return eviction.ObserveReply{}, eviction.ErrUnavailable
}

func refusing() (eviction.ObserveReply, error) { return eviction.ObserveReply{}, eviction.ErrRefused }

type observer func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)

func (f observer) Observe(ctx context.Context, r eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return f(ctx, r)
}

type reclaimer func(eviction.ReclaimRequest) (eviction.Reclaimed, error)

func (f reclaimer) Reclaim(_ context.Context, r eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return f(r)
}

// A ranker need not look at who is a candidate: of its order only those count, as in
// replies that the supervisor has checked.
type ranker func(eviction.RankRequest) ([]eviction.Ranked, error)

func (f ranker) Rank(_ context.Context, r eviction.RankRequest) ([]eviction.Ranked, error) {
	order, err := f(r)
	return slices.DeleteFunc(order, func(p eviction.Ranked) bool {
		return !slices.ContainsFunc(r.Candidates, func(c eviction.Candidate) bool { return c.Pod.UID == p.UID })
	}), err
}

// ranks returns a ranker with a fixed order.
func ranks(uids ...string) ranker {
	return func(eviction.RankRequest) (order []eviction.Ranked, err error) {
		for _, uid := range uids {
			order = append(order, eviction.Ranked{UID: uid})
		}
		return order, nil
	}
}
