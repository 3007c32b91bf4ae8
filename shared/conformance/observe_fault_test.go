package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

// changedReply is a fault that changes what is observed.
func changedReply(do func(*eviction.ObserveReply, eviction.ObserveRequest)) func(*sound, *eviction.Plugin) {
	return func(s *sound, _ *eviction.Plugin) {
		s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
			reply, err := soundObserve(ctx, req)
			do(&reply, req)
			return reply, err
		}
	}
}

func eachObservation(do func(*eviction.Observation)) func(*sound, *eviction.Plugin) {
	return changedReply(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
		for i := range reply.Observations {
			do(&reply.Observations[i])
		}
	})
}

func observeFaults() map[string]valueFault {
	change, each := changedReply, eachObservation
	return map[string]valueFault{
		"forgets a signal": {change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			reply.Observations = reply.Observations[:min(1, len(reply.Observations))]
		}), "answered 0 times", []string{"observe"}},
		"observes twice": {change(func(reply *eviction.ObserveReply, _ eviction.ObserveRequest) {
			reply.Observations = append(reply.Observations, reply.Observations...)
		}), "answered 2 times", []string{"observe"}},
		"tells what was not asked": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			if len(req.Signals) == 1 {
				reply.Observations = append(reply.Observations, eviction.Observation{Signal: eviction.PIDAvailable})
			}
		}), "pid.available", []string{"observe-only-asked"}},
		"negative capacity":                          {each(func(o *eviction.Observation) { o.Available, o.Capacity = -5, -1 }), "capacity -1", []string{"observe-bounds"}},
		"more available than all":                    {each(func(o *eviction.Observation) { o.Available = 10 }), "available 10, capacity 9", []string{"observe-bounds"}},
		"time in the future":                         {each(func(o *eviction.Observation) { o.Time = o.Time.Add(time.Hour) }), "it is", []string{"observe-time"}},
		"a little further ahead than the host takes": {each(func(o *eviction.Observation) { o.Time = o.Time.Add(1500 * time.Millisecond) }), "from now", []string{"observe-time"}},
		"a boot time that stays the same":            {each(func(o *eviction.Observation) { o.BootNanos = 1 }), "boot time 1 ns", []string{"observe-time", "observe-fresh"}},
		"seconds for nanoseconds":                    {each(func(o *eviction.Observation) { o.Time = time.Unix(0, o.Time.UnixMilli()) }), "1970", []string{"observe-time"}},
		"knows nothing": {each(func(o *eviction.Observation) {
			*o = eviction.Observation{Signal: o.Signal}
		}), "without a reason", []string{"observe"}},
		"no layout of its own": {func(_ *sound, p *eviction.Plugin) { p.OwnsLayout = true }, "reports none", []string{"observe-layout"}},
		"panics on a signal of others": {change(func(_ *eviction.ObserveReply, req eviction.ObserveRequest) {
			for _, s := range req.Signals {
				_ = map[eviction.Signal]*int{customSignal: new(int), eviction.MemoryAvailable: new(int)}[s]
				if s != customSignal && s != eviction.MemoryAvailable {
					panic("no such signal")
				}
			}
		}), "panic: no such signal", []string{"observe-unknown-signal", "observe-many-signals"}},
		"makes up any signal": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			reply.Observations = reply.Observations[:0]
			for _, s := range req.Signals {
				reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Capacity: 1, Time: time.Now()})
			}
		}), "available 0, capacity 1", []string{"observe-unknown-signal", "observe-many-signals"}},
		"only before reclaim": {change(func(reply *eviction.ObserveReply, req eviction.ObserveRequest) {
			if req.View == eviction.ViewAfterReclaim {
				reply.Observations = nil
			}
		}), "AFTER_RECLAIM", []string{"observe-after-reclaim"}},
		"eight calls at a time": {func(s *sound, _ *eviction.Plugin) {
			var busy atomic.Int32
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				defer busy.Add(-1)
				if busy.Add(1) > 8 {
					return eviction.ObserveReply{}, errors.New("busy")
				}
				<-time.After(10 * time.Millisecond)
				return soundObserve(ctx, req)
			}
		}, "busy", []string{"observe-parallel", "observe-cancelled"}},
		"never recovers from a cancelled call": {func(s *sound, _ *eviction.Plugin) {
			var broken atomic.Bool
			s.observe = func(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
				select {
				case <-ctx.Done():
					broken.Store(true)
				case <-time.After(3 * time.Millisecond):
				}
				if broken.Load() {
					return eviction.ObserveReply{}, errors.New("broken pipe")
				}
				return soundObserve(ctx, req)
			}
		}, "broken pipe", []string{"observe-cancelled"}},
	}
}
