package host

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/evictd/evictd/host/internal/pluginhost/supervisor"
)

const (
	// rehearsalInterval is the interval at which a rehearsal looks for new plugins and a new configuration.
	rehearsalInterval = 10 * time.Second
	// firstPassLook is the interval at which it looks for the end of the first pass.
	firstPassLook = 100 * time.Millisecond
)

// A rehearsal has a pod chosen without an effect. That touches what a choice needs in evictd, which has locked
// its pages, and in the plugins: on a node that thrashes it is in memory.
type rehearsal struct {
	// concluded reports whether a pass has concluded something.
	concluded func() bool
	config    func() *Config
	plugins   func() []supervisor.Status
	// choose ranks the pods for memory.available and does nothing else.
	choose func(ctx context.Context) error
	log    *slog.Logger
}

// run rehearses after the first pass, and again after each reload and with new plugins.
func (r rehearsal) run(ctx context.Context) {
	look := time.NewTicker(firstPassLook)
	defer look.Stop()
	for rehearsed := ""; ; {
		if r.concluded() {
			if now := r.cast(); now != rehearsed {
				rehearsed = now
				look.Reset(rehearsalInterval)
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
