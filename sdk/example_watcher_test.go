package sdk_test

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// alarm passes on what a driver sends. A kernel's event or a ticker are the same.
type alarm struct{ low <-chan struct{} }

// Watch implements eviction.Watcher.
func (a alarm) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	for {
		select {
		case <-ctx.Done(): // the host has new thresholds, or is ending
			return nil
		case <-a.low:
			for _, t := range req.Thresholds {
				wake(eviction.Wake{Signal: t.Signal, Cause: "driver"})
			}
		}
	}
}

// A wake has the host look at once, and not at the next interval. What it then
// decides comes from the Observer.
func Example_watcher() {
	low := make(chan struct{}, 1)
	plugin := sdk.Plugin{
		Name:    "nvme",
		Signals: sdk.Signals(eviction.NodeFsAvailable),
		Watcher: alarm{low},
	}
	ctx, cancel := context.WithCancel(context.Background())
	low <- struct{}{}
	req := eviction.WatchRequest{Thresholds: []eviction.WatchThreshold{{Signal: eviction.NodeFsAvailable, Threshold: eviction.Threshold{Fraction: 0.1}}}}
	err := plugin.Watcher.Watch(ctx, req, func(w eviction.Wake) {
		fmt.Println(w.Signal, w.Cause)
		cancel()
	})
	fmt.Println(err)
	// Output:
	// nodefs.available driver
	// <nil>
}
