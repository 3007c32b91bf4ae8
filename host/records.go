package host

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/node/fallback"
	"github.com/evictd/evictd/host/internal/why/recorder"
	"github.com/evictd/evictd/shared/eviction"
)

// samplers returns functions that sample the node between passes: kernel and filesystem figures
// that have thresholds and that the host can read itself.
func samplers(reader *fallback.Reader, c *Config) (all []func() []eviction.Observation) {
	thresholds, _ := c.Thresholds() // already validated
	for _, thing := range [][]eviction.Signal{
		{eviction.MemoryAvailable, eviction.AllocatableMemoryAvailable, eviction.PIDAvailable},
		{eviction.NodeFsAvailable, eviction.NodeFsInodesFree},
	} {
		signals := slices.DeleteFunc(thing, func(s eviction.Signal) bool {
			return !slices.ContainsFunc(thresholds, func(t policy.Threshold) bool { return t.Signal == s })
		})
		if len(signals) > 0 {
			all = append(all, func() (read []eviction.Observation) {
				for _, s := range signals {
					read = append(read, reader.Read(s))
				}
				return read
			})
		}
	}
	return all
}

// usageTimeout bounds listing the pods.
const usageTimeout = 10 * time.Second

// podUsage returns a function that measures the memory and tasks of pods.
func podUsage(reader *fallback.Reader, active func(context.Context) (pods.Snapshot, error)) func(ctx context.Context) (recorder.Usage, error) {
	return func(ctx context.Context) (recorder.Usage, error) {
		ctx, cancel := context.WithTimeout(ctx, usageTimeout)
		defer cancel()
		known, err := active(ctx)
		if err != nil {
			return nil, err
		}
		rows := make([]eviction.Pod, len(known.Pods))
		for i := range rows {
			rows[i] = known.Pods[i].Row
		}
		of := recorder.Usage{}
		for _, s := range []eviction.Signal{eviction.MemoryAvailable, eviction.PIDAvailable} {
			used := map[string]int64{}
			for _, pod := range reader.Measure(ctx, s, rows) {
				used[pod.UID] = pod.UsageFor(s)
			}
			for _, o := range reader.Observe(ctx, eviction.SameResource(s)) {
				if o.State == eviction.Observed {
					of[o.Signal] = recorder.Shares{Available: o.Available, Used: used}
				}
			}
		}
		return of, nil
	}
}
