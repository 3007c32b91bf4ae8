// Package summary is the plugin with the figures of the kubelet's stats summary. It runs in the
// host's process: tokens and certificates stay there. One fetch for each pass and view answers all
// calls, so that all signals of a pass come from one sample.
//
// It does not rank. The configuration assigns signals to it.
//
// # Trust
//
// The source gets its credentials but is not trusted otherwise: a fetch has a deadline, a maximum
// size and a maximum number of values.
package summary

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/nodefs"
)

const (
	// lateFor is the time for which a summary that came late counts: for a pass and its decision.
	lateFor = 5 * time.Second
	// closeTimeout bounds the wait for the source to end.
	closeTimeout = time.Second
)

// A Provider observes and measures by the summary of a kubelet. It is safe for concurrent use. A nil
// Provider has no source.
type Provider struct {
	source  *Source
	fetched *answers.Input[*Stats]
	fetches sync.WaitGroup
	layout  atomic.Pointer[eviction.LayoutReport]
	// subtract: the summary counts huge pages as available, and they are not. machine has them.
	subtract func() bool
	machine  *nodefs.Gauge[nodefs.Machine]

	mu sync.Mutex
	// views holds those of the current and the previous pass, which a late Measure may still ask for.
	views map[eviction.PassView]*view
	pass  uint64
	// closed: no view is fetched any more.
	closed bool
	// served is when the last summary was asked for that a view has, servedAt when the first view had
	// it.
	served, servedAt time.Time
}

var errClosed = errors.New("the host stops")

// A view has the summary of one view of a pass. It is complete and immutable when done is closed.
type view struct {
	done  chan struct{}
	stats *Stats
	err   error
}

// New returns a Provider, which takes ownership of the source. While subtract returns true the huge
// pages of the machine are subtracted from memory.available, as the kubelet's summary provider does
// since v1.37.
func New(source *Source, fs nodefs.FS, subtract func() bool) *Provider {
	p := &Provider{
		source: source, views: map[eviction.PassView]*view{},
		subtract: subtract, machine: fs.MachineMemory(nodefs.MemoryRules{ExcludeHugePages: true}),
	}
	p.fetched = answers.New("summary", source.timeout, func(ctx context.Context) (*Stats, error) {
		data, err := source.Fetch(ctx)
		if err != nil {
			return nil, err
		}
		s, err := Decode(data)
		if err != nil {
			return nil, fmt.Errorf("get summary from %s: %w", source.name, err)
		}
		return s, nil
	})
	return p
}

// Plugin returns the plugin. Its name is registry.Summary.
func (p *Provider) Plugin() eviction.Plugin {
	all := eviction.Plugin{Name: registry.Summary, Version: "1", OwnsLayout: true, Observer: p, Measurer: p}
	for _, s := range eviction.BuiltinSignals() {
		all.Signals = append(all.Signals, eviction.SignalSpec{Signal: s})
	}
	return all
}

// Begin sets the layout of the filesystems, unless it is nil, for the views from at on. With wait it
// returns when the summary of at has been fetched, or ctx ends.
func (p *Provider) Begin(ctx context.Context, at eviction.PassView, layout *eviction.LayoutReport, wait bool) {
	if layout != nil {
		p.layout.Store(layout)
	}
	if wait {
		_, _ = p.get(ctx, at) // an error is the calls'
	}
}

// get returns the summary of a view. A caller that gives up does not affect the others.
func (p *Provider) get(ctx context.Context, at eviction.PassView) (*Stats, error) {
	v, err := p.view(ctx, at)
	if err != nil {
		return nil, err
	}
	select {
	case <-v.done:
		return v.stats, v.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// view returns the view at, which the first call begins to fetch: that continues if its caller gives
// up. A pass that is over has no more views.
func (p *Provider) view(ctx context.Context, at eviction.PassView) (*view, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	if v := p.views[at]; v != nil {
		return v, nil
	}
	if at.Pass < p.pass {
		return nil, fmt.Errorf("pass %d is over", at.Pass)
	}
	if at.Pass > p.pass {
		for former := range p.views {
			if former.Pass < p.pass {
				delete(p.views, former)
			}
		}
		p.pass = at.Pass
	}
	v := &view{done: make(chan struct{})}
	p.views[at] = v
	ctx, began := context.WithoutCancel(ctx), time.Now()
	p.fetches.Go(func() {
		defer close(v.done)
		ctx, cancel := context.WithTimeout(ctx, p.source.wait)
		defer cancel()
		v.stats, v.err = p.fetch(ctx, began)
	})
	return v, nil
}

// fetch returns a summary that was asked for at began or later, or one that came late: the kubelet
// waits for its own.
func (p *Provider) fetch(ctx context.Context, began time.Time) (*Stats, error) {
	got := p.fetched.Get(ctx, began)
	late := errors.Is(got.Err, answers.ErrLate)
	switch {
	case got.Err == nil, p.serve(got) && late:
		return got.Value, nil
	case late:
		return nil, fmt.Errorf("get summary from %s: no whole answer within %v", p.source.name, p.source.wait)
	case errors.Is(got.Err, answers.ErrClosed):
		return nil, errClosed
	}
	return nil, errors.Unwrap(got.Err) // it names the source
}

// serve reports whether a view may have a summary that came late: no view had it until now, or one
// had it a moment ago, which may have begun a decision.
func (p *Provider) serve(got answers.Answer[*Stats]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got.Asked.After(p.served) {
		p.served, p.servedAt = got.Asked, time.Now()
	}
	return got.Known() && time.Since(p.servedAt) < lateFor
}

// Close cancels the fetches under way and returns when the source has ended, at the latest after a
// second.
func (p *Provider) Close(ctx context.Context) error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	_, err := hang.Do(ctx.Done(), func() (struct{}, error) {
		p.fetched.Close()
		p.fetches.Wait()
		p.machine.Close()
		p.source.Close()
		return struct{}{}, nil
	}, nil)
	if err != nil {
		return fmt.Errorf("close summaries: a call for the summary has not ended: %w", err)
	}
	return nil
}

// Observe implements eviction.Observer. Without a summary the signals are unknown.
func (p *Provider) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	s, err := p.get(ctx, req.PassView)
	if err != nil && ctx.Err() != nil {
		return eviction.ObserveReply{}, err
	}
	reply := eviction.ObserveReply{Observations: make([]eviction.Observation, len(req.Signals)), Layout: p.layout.Load()}
	for i, signal := range req.Signals {
		if err != nil {
			reply.Observations[i] = eviction.Observation{Signal: signal, Err: err.Error()}
			continue
		}
		reply.Observations[i] = s.Observe(signal)
		if signal == eviction.MemoryAvailable && p.subtract() {
			p.subtractHugePages(&reply.Observations[i])
		}
	}
	return reply, nil
}

// Measure implements eviction.Measurer. Signals of filesystems need the layout.
func (p *Provider) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	s, err := p.get(ctx, req.PassView)
	if err != nil {
		return err
	}
	layout := eviction.Layout(0)
	if l := p.layout.Load(); l != nil {
		layout = l.Layout()
	}
	return s.Measure(req, layout, emit)
}

func (p *Provider) subtractHugePages(o *eviction.Observation) {
	if o.State != eviction.Observed {
		return
	}
	b, release := nodefs.BorrowBuffer()
	defer release()
	m, err := p.machine.Read(b)
	if err != nil {
		*o = eviction.Observation{Signal: o.Signal, Err: err.Error()}
		return
	}
	workingSet := o.Capacity - o.Available
	o.Available = max(0, o.Available-m.HugePagesBytes)
	o.Capacity = o.Available + workingSet
	o.Components = append(o.Components, eviction.Component{Name: figures.HugePages, Value: m.HugePagesBytes})
}
