package sdk_test

import (
	"context"
	"fmt"

	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

// The built-in plugins are packages too: a vendor's disk plugin is the built-in one
// with a step of its own. Package disk has more examples.
func Example_wrappingDisk() {
	main := func() {
		plugin := disk.New(disk.WithStep(disk.Step{
			ReclaimStep: eviction.ReclaimStep{Name: "acme.example/trim"},
			Signals:     []eviction.Signal{eviction.NodeFsAvailable},
			Run: func(context.Context, eviction.ReclaimRequest, func(eviction.Reclaimed)) (eviction.Reclaimed, error) {
				return eviction.Reclaimed{Bytes: 1 << 30}, nil
			},
		}))
		plugin.Name = "acme-disk"
		sdk.Serve(plugin)
	}
	_ = main

	fmt.Println(disk.New().OwnsLayout)
	// Output: true
}
