package conformance

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/machine"
	"github.com/evictd/evictd/shared/conformance/internal/watch"
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

// A threshold that others have crossed before memory is taken for it says nothing of wakes.
func TestAThresholdThatOthersHaveCrossedSaysNothingOfWakes(t *testing.T) {
	t.Parallel()
	s := newSound()
	p := s.plugin()
	p.Watcher = s
	var left atomic.Int64
	left.Store(8 * watch.RoomBytes)
	s.observe = func(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
		var reply eviction.ObserveReply
		for _, signal := range req.Signals {
			now := left.Add(-2 * machine.BallastBytes) // others take as much between any two looks
			reply.Observations = append(reply.Observations, eviction.Observation{Signal: signal, State: eviction.Observed, Available: now, Capacity: 16 * watch.RoomBytes, Time: time.Now()})
		}
		return reply, nil
	}
	s.watch = func(ctx context.Context, _ eviction.WatchRequest, _ func(eviction.Wake)) error {
		<-ctx.Done() // it has been woken for that before
		return ctx.Err()
	}
	r, err := Value(t.Context(), p, Options{Only: []string{"watch"}, Timeout: 2 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Checks {
		if c := &r.Checks[i]; c.Name == "watch-wakes" && c.Result == Skipped {
			return
		}
	}
	t.Errorf("watch-wakes was not skipped: %q failed", failures(&r))
}
