package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
)

// direct makes of a plugin in this process what a connection makes of a remote
// one: calls that end with their context, whose errors are those of package
// eviction, and that share no memory with the host. It has the methods of all
// capabilities.
type direct struct {
	plugin eviction.Plugin
	// late counts the calls that have not returned although their context ended.
	// Nothing can end them, so that only a few are waited out.
	late atomic.Int32
}

// Direct returns a plugin of this process as if it came over a connection.
func Direct(p eviction.Plugin) eviction.Plugin {
	d := &direct{plugin: p}
	p.CheckHost = nil // Asked when it was added.
	if p.Configurer != nil {
		p.Configurer = d
	}
	if p.Observer != nil {
		p.Observer = d
	}
	if p.Measurer != nil {
		p.Measurer = d
	}
	if p.Watcher != nil {
		p.Watcher = d
	}
	if p.Ranker != nil {
		p.Ranker = d
	}
	if p.Reclaimer != nil {
		p.Reclaimer = d
	}
	return p
}

// do runs f in a goroutine of its own and returns when ctx ends at the latest.
// f then runs on as long as it likes; the contract says that it ends soon.
func (d *direct) do(ctx context.Context, f func() error) error {
	if n := d.late.Load(); n >= missesToKill {
		return fmt.Errorf("%w: %d calls have not returned since their contexts ended", eviction.ErrUnavailable, n)
	}
	var settled atomic.Bool // by the one that comes first: f's end or ctx's
	result := make(chan error, 1)
	go func() {
		err := f()
		if !settled.CompareAndSwap(false, true) {
			d.late.Add(-1)
		}
		result <- err
	}()
	select {
	case err := <-result:
		return refused(ctx, err)
	case <-ctx.Done():
	}
	d.late.Add(1)
	if settled.CompareAndSwap(false, true) {
		return ctx.Err()
	}
	d.late.Add(-1)
	return refused(ctx, <-result)
}

// refused names an error as if it had come over a connection, where nothing but
// its text does.
func refused(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return ctx.Err()
	default:
		return fmt.Errorf("%w: %s", eviction.ErrRefused, err.Error())
	}
}

// A gate lets calls back through, one at a time, until it is shut: what a late
// call says is not for anybody any more.
type gate struct {
	mu   sync.Mutex
	shut bool
}

func (g *gate) through(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		f()
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Configure implements eviction.Configurer.
func (d *direct) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	req.Config = slices.Clone(req.Config)
	return d.do(ctx, func() error { return d.plugin.Configurer.Configure(ctx, req) })
}

// Observe implements eviction.Observer.
func (d *direct) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	req.Signals = slices.Clone(req.Signals)
	replies := make(chan eviction.ObserveReply, 1)
	err := d.do(ctx, func() error {
		reply, err := d.plugin.Observer.Observe(ctx, req)
		replies <- copyReply(reply)
		return err
	})
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	return <-replies, nil
}

// Measure implements eviction.Measurer. Answers for pods that were not asked
// for, or a second time, are dropped and reported at the end; the others count.
func (d *direct) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	open := make(map[string]bool, len(req.Pods))
	for i := range req.Pods {
		open[req.Pods[i].UID] = true
	}
	req.Signals = slices.Clone(req.Signals)
	req.Pods = d.copyPods(req.Pods)
	var (
		g       gate
		dropped int
		example string
	)
	err := d.do(ctx, func() error {
		return d.plugin.Measurer.Measure(ctx, req, func(m eviction.Measurement) {
			g.through(func() {
				if !open[m.UID] {
					dropped++
					example = m.UID
					return
				}
				open[m.UID] = false
				emit(copyMeasurement(m))
			})
		})
	})
	g.close()
	if dropped > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %d measurements of pods not asked for or answered before, such as %.64q",
			eviction.ErrInvalidReply, dropped, example))
	}
	return err
}

// Watch implements eviction.Watcher.
func (d *direct) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	req.Thresholds = slices.Clone(req.Thresholds)
	var g gate
	defer g.close()
	return d.do(ctx, func() error {
		return d.plugin.Watcher.Watch(ctx, req, func(w eviction.Wake) { g.through(func() { wake(w) }) })
	})
}

// Rank implements eviction.Ranker.
func (d *direct) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	req.Candidates = d.copyCandidates(req.Candidates)
	replies := make(chan []eviction.Ranked, 1)
	err := d.do(ctx, func() error {
		ranked, err := d.plugin.Ranker.Rank(ctx, req)
		replies <- slices.Clone(ranked)
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-replies, nil
}

// Reclaim implements eviction.Reclaimer. With an error it returns what was freed
// up to then.
func (d *direct) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	req.Pods = slices.Clone(req.Pods)
	var (
		g    gate
		last eviction.Reclaimed
	)
	err := d.do(ctx, func() error {
		freed, err := d.plugin.Reclaimer.Reclaim(ctx, req, func(r eviction.Reclaimed) {
			g.through(func() {
				last = r
				progress(r)
			})
		})
		g.through(func() { last = freed })
		return err
	})
	g.close()
	return last, err
}
