// Readymade is the memory, disk or pid plugin, by the name it is started under, with precomputed
// figures: those of a summary in a file, decoded once. So only evictd's own cost of a pass remains,
// as for the kubelet's pass, which is also timed with its figures ready.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/evictd/evictd/host/internal/node/summary"
	"github.com/evictd/evictd/plugins/disk"
	"github.com/evictd/evictd/plugins/memory"
	"github.com/evictd/evictd/plugins/pid"
	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

func main() {
	name := filepath.Base(os.Args[0])
	make, ok := map[string]func() sdk.Plugin{"memory": memory.New, "disk": func() sdk.Plugin { return disk.New() }, "pid": pid.New}[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: started under this name it is no plugin, want memory, disk or pid\n", name)
		os.Exit(2)
	}
	p := make()
	f := &figures{layout: p.OwnsLayout}
	p.Configurer, p.Observer, p.Measurer, p.Watcher = sdk.Configure(f.read), f, f, nil
	sdk.Serve(p)
}

// config is the plugin's own configuration.
type config struct {
	// Summary is the path of a stats summary in JSON.
	Summary string `json:"summary"`
}

// figures holds the figures of one summary, for every pass.
type figures struct {
	summary *summary.Stats
	layout  bool
}

func (f *figures) read(_ context.Context, _ eviction.NodeFacts, c config) error {
	data, err := os.ReadFile(c.Summary)
	if err != nil {
		return err
	}
	f.summary, err = summary.Decode(data)
	return err
}

// Observe implements eviction.Observer, on a node with one filesystem.
func (f *figures) Observe(_ context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	var reply eviction.ObserveReply
	for _, s := range req.Signals {
		reply.Observations = append(reply.Observations, f.summary.Observe(s))
	}
	if f.layout {
		reply.Layout = &eviction.LayoutReport{}
	}
	return reply, nil
}

// Measure implements eviction.Measurer.
func (f *figures) Measure(_ context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	return f.summary.Measure(req, eviction.LayoutShared, emit)
}
