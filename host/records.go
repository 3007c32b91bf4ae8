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

// records are the records of decisions of one Manager.
type records struct {
	store  keep.Store
	keeper *keep.Keeper
	// runs: the keeper closes the store.
	runs bool
}

// openRecords opens the directory of records, if there is to be one. Without it pods are
// evicted all the same: that is told, and each record that is lost is counted.
func openRecords(m *Manager) *records {
	c := m.config()
	if c.StateDir == "" {
		return nil
	}
	o := keep.Options{Node: c.NodeName, Evictd: m.version, Count: m.metrics.Recorded, Log: m.log, Sample: sampler(m, c)}
	s, err := store.Open(store.Options{Dir: store.Below(c.StateDir), MaxBytes: c.RecordsMaxSize.Value(), MaxAge: c.RecordsMaxAge.Duration})
	if err != nil {
		m.log.Error("decisions are not recorded", "stateDir", c.StateDir, "error", err)
		o.Store = store.Unusable{Err: err}
	} else {
		o.Store = s
	}
	return &records{store: o.Store, keeper: keep.New(o)}
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

// of is what the loop tells.
func (r *records) of() *keep.Keeper {
	if r == nil {
		return nil
	}
	return r.keeper
}

func (r *records) run(ctx context.Context) {
	if r != nil {
		r.runs = true
		r.keeper.Run(ctx)
	}
}

// close closes what was opened and never run.
func (r *records) close() error {
	if r == nil || r.runs {
		return nil
	}
	return r.store.Close()
}
