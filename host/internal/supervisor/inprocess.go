package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/evictd/evictd/host/internal/supervisor/client"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/sandbox"
	"github.com/evictd/evictd/shared/eviction"
)

// InProcess returns a supervisor of plugins that run in this process, by name.
// It is an error if one of them breaks the contract or refuses the host; whether
// they accept their configuration is only known to Run.
func InProcess(plugins map[string]eviction.Plugin, o Options) (*Supervisor, error) {
	inside := make(insiders, len(plugins))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(plugins)) {
		p := plugins[name]
		err := p.Validate()
		if err == nil && p.CheckHost != nil {
			err = p.CheckHost(o.Host)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
		inside[name] = client.Direct(p)
	}
	s := newSupervisor(o, inside)
	s.control.inside = true
	return s, errors.Join(errs...)
}

// insiders are plugins of this process.
type insiders map[string]eviction.Plugin

func (l insiders) look() (map[string]plugindir.File, error) {
	files := make(map[string]plugindir.File, len(l))
	for name := range l {
		files[name] = plugindir.File{Fit: true}
	}
	return files, nil
}

func (l insiders) complete(context.Context, string) (plugindir.ID, error) { return plugindir.ID{}, nil }

func (l insiders) launch(_ context.Context, s start) (running, error) {
	return insider{l[s.name]}, nil
}

// An insider is a plugin of this process. Nothing can end it: what hangs in it goes
// on, and it is left alone as long as it does (client.Direct).
type insider struct{ plugin eviction.Plugin }

func (i insider) describe(context.Context, eviction.Host) (eviction.Plugin, error) {
	return i.plugin, nil
}

func (insider) pid() int { return 0 }

func (insider) exited() <-chan struct{} { return nil }

func (insider) ending() string { return "" }

func (insider) crashed() string { return "" }

func (insider) confinement() *sandbox.Status { return nil }

func (insider) close(time.Duration) error { return nil }
