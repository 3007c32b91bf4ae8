package host

import (
	"context"
	"slices"

	"github.com/evictd/evictd/host/internal/config"
	"github.com/evictd/evictd/host/internal/observe/fallback"
	"github.com/evictd/evictd/host/internal/record/keep"
	"github.com/evictd/evictd/host/internal/record/store"
	"github.com/evictd/evictd/shared/eviction"
)

// newKeeper returns the keeper of records of decisions, nil if none are to be kept.
func newKeeper(m *Manager) *keep.Keeper {
	c := m.config()
	if c.StateDir == "" {
		return nil
	}
	return keep.New(keep.Options{
		Store: store.New(store.Options{Dir: store.Below(c.StateDir), MaxBytes: c.RecordsMaxSize.Value(), MaxAge: c.RecordsMaxAge.Duration}),
		Node:  c.NodeName, Evictd: m.version, Count: m.metrics.Recorded, Log: m.log, Sample: sampler(m, c),
	})
}

// sampler reads what the host can read of the node by itself and has thresholds for. Another
// source's figures, and another program's, are those of passes alone.
func sampler(m *Manager, c *Config) func(ctx context.Context) []eviction.Observation {
	if m.embedded != nil || c.Source != config.SourceNative {
		return nil
	}
	reader := fallback.New(m.facts(c))
	var signals []eviction.Signal
	thresholds, _ := c.Thresholds() // were checked
	for _, t := range thresholds {
		if reader.Reads(t.Signal) && !slices.Contains(signals, t.Signal) {
			signals = append(signals, t.Signal)
		}
	}
	return func(ctx context.Context) []eviction.Observation { return reader.Observe(ctx, signals) }
}
