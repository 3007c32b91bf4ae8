package main

import (
	"context"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// wrongFigures are the faults of Observe and Measure.
var wrongFigures = map[string]func(*eviction.Plugin){
	"figures that never change": func(p *eviction.Plugin) {
		kept := map[eviction.Signal]eviction.Observation{}
		var mu sync.Mutex
		observing(p, func(o *eviction.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := kept[o.Signal]; !ok {
				o.Time = time.Time{}
				kept[o.Signal] = *o
			}
			*o = kept[o.Signal]
		})
	},
	"a fresh time on an old figure": func(p *eviction.Plugin) {
		kept := map[eviction.Signal]int64{}
		var mu sync.Mutex
		observing(p, func(o *eviction.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := kept[o.Signal]; !ok {
				kept[o.Signal] = o.Available
			}
			o.Available = kept[o.Signal]
		})
	},
	"used for available": func(p *eviction.Plugin) {
		observing(p, func(o *eviction.Observation) { o.Available = o.Capacity - o.Available })
	},
	"0 every other time": func(p *eviction.Plugin) {
		looks := map[eviction.Signal]int{}
		var mu sync.Mutex
		observing(p, func(o *eviction.Observation) {
			mu.Lock()
			defer mu.Unlock()
			if looks[o.Signal]++; looks[o.Signal]%2 == 0 {
				o.Available = 0
			}
		})
	},
	"capacity in KiB": func(p *eviction.Plugin) {
		observing(p, func(o *eviction.Observation) {
			if o.Signal == eviction.MemoryAvailable {
				o.Available, o.Capacity = o.Available>>10, o.Capacity>>10
			}
		})
	},
	"memory is absent": func(p *eviction.Plugin) {
		observing(p, func(o *eviction.Observation) {
			if o.Signal == eviction.MemoryAvailable {
				*o = eviction.Observation{Signal: o.Signal, State: eviction.Absent}
			}
		})
	},
	"observes what nobody asked for": func(p *eviction.Plugin) {
		observe(p, func(next eviction.Observer, ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
			req.Signals = []eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable, cacheSignal}
			return next.Observe(ctx, req)
		})
	},
	"leaks memory in Observe": func(p *eviction.Plugin) { observing(p, func(*eviction.Observation) { kept.add(32 << 10) }) },
	"leaks a thread in Observe": func(p *eviction.Plugin) {
		observe(p, func(next eviction.Observer, ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
			go blockThread()
			return next.Observe(ctx, req)
		})
	},
	"measures nobody": func(p *eviction.Plugin) {
		p.Measurer = measurer(func(context.Context, eviction.MeasureRequest, emit) {})
	},
	"measures zeros for pods that are not there": func(p *eviction.Plugin) {
		p.Measurer = measurer(func(_ context.Context, req eviction.MeasureRequest, emit emit) {
			for i := range req.Pods {
				emit(eviction.Measurement{UID: req.Pods[i].UID, State: eviction.Measured})
			}
		})
	},
	"leaks memory in Measure": func(p *eviction.Plugin) {
		next := p.Measurer
		p.Measurer = measurer(func(ctx context.Context, req eviction.MeasureRequest, emit emit) {
			kept.add(64 << 10)
			_ = next.Measure(ctx, req, emit)
		})
	},
	"works on when it is cancelled": func(p *eviction.Plugin) {
		next := p.Measurer
		p.Measurer = measurer(func(ctx context.Context, req eviction.MeasureRequest, emit emit) {
			_ = next.Measure(ctx, req, emit)
			// Work, not a wait, and long enough that some of the calls are cancelled meanwhile on a busy machine.
			for begin := time.Now(); time.Since(begin) < 15*time.Millisecond; {
			}
			for begin := time.Now(); ctx.Err() != nil && time.Since(begin) < time.Minute; {
			}
		})
	},
}
