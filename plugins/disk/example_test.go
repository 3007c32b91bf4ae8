package disk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// A vendor's disk plugin: it trims its array before containers and images go. All
// else, the measuring of pods too, is the plugin's own.
func ExampleWithStep() {
	trim := func(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
		released := eviction.Reclaimed{Bytes: 3 << 30, Message: "trimmed 2 of 2 volumes"} // by calling the array
		progress(released)
		return released, nil
	}
	plugin := disk.New(disk.WithStep(disk.Step{
		ReclaimStep: eviction.ReclaimStep{Name: "acme.example/trim"},
		Signals:     []eviction.Signal{eviction.NodeFsAvailable},
		Run:         trim,
	}))
	plugin.Name = "acme-disk"
	// In main this is followed by sdk.Serve(plugin).

	fmt.Println(plugin.Name, plugin.Validate())
	for _, step := range plugin.Signals[0].ReclaimSteps {
		fmt.Println(plugin.Signals[0].Signal, step.Name)
	}
	// Output:
	// acme-disk <nil>
	// nodefs.available acme.example/trim
	// nodefs.available container-gc
	// nodefs.available image-gc
}

// array observes the vendor's storage behind the images.
type array struct{}

func (array) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, s := range req.Signals {
		reply.Observations = append(reply.Observations, eviction.Observation{Signal: s, State: eviction.Observed, Available: 40 << 30, Capacity: 100 << 30})
	}
	return reply, nil
}

// Images are on the vendor's array, which knows better than the filesystem how much
// room is left: thin provisioning. Where writable layers are with the images they have
// this figure, too. The layout and all other signals stay.
func ExampleWithObserver() {
	plugin := disk.New(disk.WithObserver(array{}, eviction.ImageFsAvailable))
	fmt.Println(plugin.Validate())
	// Output: <nil>
}

// reclaimer wraps the plugin's own reclaim: it asks first.
type reclaimer struct {
	eviction.Reclaimer
	maintenance atomic.Bool // calls come at any time
}

func (r *reclaimer) Reclaim(ctx context.Context, req eviction.ReclaimRequest, progress func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
	if r.maintenance.Load() && req.Step == disk.ImageGC {
		return eviction.Reclaimed{Message: "left alone: images are being loaded"}, nil
	}
	return r.Reclaimer.Reclaim(ctx, req, progress)
}

// A plugin is a value: here its reclaim is wrapped, and a vendor's configuration
// put beside its own, which is strict about fields that it does not know.
func ExampleNew() {
	plugin := disk.New()
	inner := plugin.Configurer
	images := &reclaimer{Reclaimer: plugin.Reclaimer}
	plugin.Reclaimer = images

	type config struct {
		Maintenance bool            `json:"maintenance"`
		Disk        json.RawMessage `json:"disk"` // what disk.New understands
	}
	plugin.Configurer = sdk.Configure(func(ctx context.Context, node eviction.NodeFacts, c config) error {
		if err := inner.Configure(ctx, eviction.ConfigureRequest{Node: node, Config: c.Disk}); err != nil {
			return err
		}
		images.maintenance.Store(c.Maintenance)
		return nil
	})

	ctx := context.Background()
	err := plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{
		Node:   eviction.NodeFacts{RuntimeEndpoint: "unix:///run/containerd/containerd.sock"},
		Config: []byte(`{"maintenance": true, "disk": {"imageMinimumGCAge": "10m"}}`),
	})
	released, _ := plugin.Reclaimer.Reclaim(ctx, eviction.ReclaimRequest{Signal: eviction.NodeFsAvailable, Step: disk.ImageGC}, nil)
	fmt.Println(err, released.Message)
	// Output: <nil> left alone: images are being loaded
}
