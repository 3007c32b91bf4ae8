package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor"
	"github.com/evictd/evictd/shared/memlock"
)

const (
	// rehearsalInterval is the interval at which a rehearsal looks for new plugins and a new configuration.
	rehearsalInterval = 10 * time.Second
	// firstPassLook is the interval at which it looks for the end of the first pass.
	firstPassLook = 100 * time.Millisecond
)

// A rehearsal keeps in memory what an eviction needs: on a node that thrashes, neither a decision nor a kill
// waits for pages of evictd.
type rehearsal struct {
	// concluded reports whether a pass has concluded something.
	concluded func() bool
	config    func() *Config
	plugins   func() []supervisor.Status
	// choose ranks the pods for memory.available and does nothing else.
	choose func(ctx context.Context) error
	log    *slog.Logger
}

// run locks the program and its memory after the first pass. Then it has a pod chosen without an effect, again
// after each reload and with new plugins: that touches, and so locks, what a choice needs here and in the
// plugins.
func (r rehearsal) run(ctx context.Context) {
	look := time.NewTicker(firstPassLook)
	defer look.Stop()
	for rehearsed := ""; ; {
		if r.concluded() {
			if rehearsed == "" {
				r.lock()
				look.Reset(rehearsalInterval)
			}
			if now := r.cast(); now != rehearsed {
				rehearsed = now
				if err := r.choose(ctx); err != nil && ctx.Err() == nil {
					r.log.Debug("choice not rehearsed", "error", err)
				}
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

// cast identifies the configuration and the plugins that run. A plugin that was restarted is the same: the
// choice may be what it fails in.
func (r rehearsal) cast() string {
	all := []any{fmt.Sprintf("%p", r.config())}
	for _, s := range r.plugins() {
		if s.State == supervisor.Running {
			all = append(all, s.Name, s.Version)
		}
	}
	return fmt.Sprint(all...)
}
