package sdk_test

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// trimmer gives thinly provisioned volumes back what they do not use.
type trimmer struct {
	volumes []string
	trim    func(ctx context.Context, volume string) (bytes int64, err error)
}

// Reclaim implements eviction.Reclaimer. It may be called again at any time: what is
// trimmed already frees nothing.
func (t trimmer) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	var released eviction.Reclaimed
	if req.Step != "acme.example/trim" {
		return released, fmt.Errorf("there is no step %q", req.Step)
	}
	for i, v := range t.volumes {
		bytes, err := t.trim(ctx, v)
		released.Bytes += bytes
		released.Message = fmt.Sprintf("trimmed %d of %d volumes", i+1, len(t.volumes))
		if err != nil {
			return released, fmt.Errorf("trim %s: %w", v, err) // what was reclaimed counts
		}
		progress(released) // at least every 30 s, else the host gives up
	}
	return released, nil
}

// Steps of a signal run in the order in which it lists them, and before the built-in
// ones. If one has reclaimed enough, no pod has to go.
func Example_reclaimer() {
	plugin := sdk.Plugin{
		Name: "trim",
		Signals: []eviction.SignalSpec{{
			Signal:       eviction.NodeFsAvailable,
			ReclaimSteps: []eviction.ReclaimStep{{Name: "acme.example/trim"}},
		}},
		Reclaimer: trimmer{
			volumes: []string{"vol0", "vol1"},
			trim:    func(context.Context, string) (int64, error) { return 1 << 30, nil },
		},
	}
	released, err := plugin.Reclaimer.Reclaim(context.Background(),
		eviction.ReclaimRequest{Signal: eviction.NodeFsAvailable, Step: "acme.example/trim"}, func(eviction.Reclaimed) {})
	fmt.Println(released.Bytes, released.Message, err, plugin.Validate())
	// Output: 2147483648 trimmed 2 of 2 volumes <nil> <nil>
}
