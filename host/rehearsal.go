package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/evictd/evictd/host/internal/loop"
	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/memlock"
)

// rehearsalInterval is the interval at which a rehearsal looks for new plugins and a new configuration.
const rehearsalInterval = 10 * time.Second

// A rehearsal keeps in memory what an eviction needs: on a node that thrashes, neither a decision nor a kill
// waits for pages of evictd.
type rehearsal struct {
	snapshot func() *loop.Snapshot
	config   func() *Config
	plugins  func() []supervisor.Status
	// choose makes a ranking of the pods and nothing else.
	choose func(ctx context.Context, s eviction.Signal) error
	log    *slog.Logger
}

// run locks the program and its memory after the first pass. Then it has pods chosen without an effect, again
// after each reload and with new plugins: that touches, and so locks, what a choice needs here and in the
// plugins.
func (r rehearsal) run(ctx context.Context) {
	look := time.NewTicker(rehearsalInterval)
	defer look.Stop()
	var rehearsed string
	for locked := false; ; {
		if snapshot := r.snapshot(); !snapshot.Time.IsZero() {
			if !locked {
				locked = true
				r.lock()
			}
			if now := r.cast(); now != rehearsed {
				rehearsed = now
				r.chooseEach(ctx, snapshot)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

func (r rehearsal) lock() {
	if err := memlock.Touched(); err != nil {
		r.log.Warn("pages of evictd not locked in memory, it may be too late on a node that thrashes", "error", err)
		return
	}
	if err := memlock.Program(); err != nil {
		r.log.Warn("program of evictd not locked in memory", "error", err)
	}
}

// cast identifies the configuration and the plugins that run.
func (r rehearsal) cast() string {
	all := []any{fmt.Sprintf("%p", r.config())}
	for _, s := range r.plugins() {
		if s.State == supervisor.Running {
			all = append(all, s.Name, s.PID)
		}
	}
	return fmt.Sprint(all...)
}

// chooseEach chooses a pod for each signal whose use by pods is cheap to measure.
func (r rehearsal) chooseEach(ctx context.Context, snapshot *loop.Snapshot) {
	done := map[eviction.Signal]bool{}
	for i := range snapshot.Thresholds {
		s := snapshot.Thresholds[i].Signal
		if b, ok := eviction.Builtin(s); !ok || !b.CheapToMeasure || done[s] {
			continue
		}
		done[s] = true
		if err := r.choose(ctx, s); err != nil && ctx.Err() == nil {
			r.log.Debug("choice not rehearsed", "signal", s, "error", err)
		}
	}
}
