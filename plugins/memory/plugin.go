// Package memory is the plugin for memory.available and allocatableMemory.available: it observes
// them, measures pods, ranks by the kubelet's rule and watches for crossings. Its figures come from
// the memory cgroups, of version 1 and 2, by the formulas of cAdvisor and the kubelet.
//
// It can be served as it is (host/cmd/evictd) or be modified: the plugin is a value,
// and a vendor may replace or clear its fields. It does not decide about pressure;
// it uses the thresholds only to know when to wake the host.
package memory

import (
	"context"
	"errors"
	"math"
	"sync/atomic"

	"github.com/evictd/evictd/plugins/internal/memcg"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// New returns the memory plugin.
func New() sdk.Plugin {
	p := &plugin{silent: map[eviction.Signal]*atomic.Bool{eviction.MemoryAvailable: {}, eviction.AllocatableMemoryAvailable: {}}}
	return sdk.Plugin{
		Name:       "memory",
		Version:    "1",
		Signals:    sdk.Signals(eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable),
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Watcher:    p,
		Ranker:     sdk.RankAsKubelet(),
	}
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call
// begins until it ends.
type plugin struct {
	current sdk.Current[*node]
	// silent: the log says that the signal's cgroup gives no notifications.
	silent map[eviction.Signal]*atomic.Bool
}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	interval, intervalErr := c.pollInterval()
	sources, err := memcg.Open(facts)
	if err := errors.Join(intervalErr, err); err != nil {
		return err
	}
	next := &node{Node: sources, pollInterval: interval, farRate: farRate, silent: p.silent}
	if c.PollInterval != "" {
		next.farRate = math.MaxInt64
	}
	p.current.Set(next, next.Close)
	return nil
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	return h.Value.Measure(ctx, req, emit, eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable)
}

// Observe implements eviction.Observer.
func (p *plugin) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	defer h.Release()
	n := h.Value
	b, release := nodefs.BorrowBuffer()
	defer release()
	reply := eviction.ObserveReply{Observations: make([]eviction.Observation, 0, len(req.Signals))}
	for _, s := range req.Signals {
		if gauge := n.Gauge(s); gauge != nil {
			o := figures.At(s)
			m, err := gauge.Read(b)
			reply.Observations = append(reply.Observations, figures.Memory(o, m, err))
		}
	}
	n.Pods.Probe(nodefs.ProbesPerPass, b)
	return reply, nil
}

// Watch implements eviction.Watcher. It returns nil when ctx ends. It ignores thresholds of
// other signals.
func (p *plugin) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	return p.current.Watch(ctx, func(ctx context.Context, n *node) { n.watch(ctx, req, wake) })
}
