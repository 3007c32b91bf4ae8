package main

import (
	"context"
	"runtime"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// The calls of a plugin as functions.
type (
	emit       = func(eviction.Measurement)
	observer   func(context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)
	measurer   func(context.Context, eviction.MeasureRequest, emit)
	watcher    func(context.Context, eviction.WatchRequest, func(eviction.Wake))
	ranker     func(context.Context, eviction.RankRequest) ([]eviction.Ranked, error)
	configurer func(context.Context, eviction.ConfigureRequest) error
	reclaimer  func(context.Context, eviction.ReclaimRequest) (eviction.Reclaimed, error)
)

func (f observer) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	return f(ctx, req)
}

func (f measurer) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	f(ctx, req, emit)
	return nil
}

func (f watcher) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	f(ctx, req, wake)
	return ctx.Err()
}

func (f ranker) Rank(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
	return f(ctx, req)
}

func (f configurer) Configure(ctx context.Context, req eviction.ConfigureRequest) error {
	return f(ctx, req)
}

func (f reclaimer) Reclaim(ctx context.Context, req eviction.ReclaimRequest, _ func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	return f(ctx, req)
}

func observe(p *eviction.Plugin, do func(eviction.Observer, context.Context, eviction.ObserveRequest) (eviction.ObserveReply, error)) {
	next := p.Observer
	p.Observer = observer(func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
		return do(next, ctx, req)
	})
}

// observing applies do to each observation.
func observing(p *eviction.Plugin, do func(*eviction.Observation)) {
	observe(p, func(next eviction.Observer, ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
		reply, err := next.Observe(ctx, req)
		for i := range reply.Observations {
			do(&reply.Observations[i])
		}
		return reply, err
	})
}

// ranking applies do to each order.
func ranking(p *eviction.Plugin, do func(eviction.RankRequest, []eviction.Ranked) []eviction.Ranked) {
	next := p.Ranker
	p.Ranker = ranker(func(ctx context.Context, req eviction.RankRequest) ([]eviction.Ranked, error) {
		order, err := next.Rank(ctx, req)
		return do(req, order), err
	})
}

func blockThread() {
	runtime.LockOSThread()
	for {
		time.Sleep(time.Hour)
	}
}
