package conformance

import (
	"context"
	"time"

	"github.com/evictd/evictd/shared/eviction"
)

func watchFaults() map[string]valueFault {
	as := func(watch func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error) func(*sound, *eviction.Plugin) {
		return func(s *sound, p *eviction.Plugin) { s.watch, p.Watcher = watch, s }
	}
	flood := func(signal eviction.Signal, every time.Duration) func(*sound, *eviction.Plugin) {
		return as(func(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-tick.C:
					if signal != "" {
						wake(eviction.Wake{Signal: signal, Cause: "whim"})
					} else if len(req.Thresholds) > 0 {
						wake(eviction.Wake{Signal: req.Thresholds[0].Signal, Cause: "whim"})
					}
				}
			}
		})
	}
	return map[string]valueFault{
		"ends its watch": {as(func(context.Context, eviction.WatchRequest, func(eviction.Wake)) error {
			return nil
		}), "ended", []string{"watch"}},
		"floods":             {flood("", 5*time.Millisecond), "wakes in", []string{"watch-quiet", "watch-only-asked", "watch-empty"}},
		"wakes for others":   {flood(eviction.PIDAvailable, 100*time.Millisecond), "pid.available", []string{"watch-only-asked"}},
		"expects thresholds": {as(panicsWithoutThresholds), "panic", []string{"watch-empty", "empty-messages"}},
	}
}

func panicsWithoutThresholds(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	_ = req.Thresholds[0]
	return soundWatch(ctx, req, wake)
}
