package supervisor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
)

// Try starts the plugins as Run would, with the same confinement and each in its own process,
// configures them, calls use with the supervisor, and ends them. The errors are about those that do
// not start. Plugins that Check refuses are not started, which is an error if they have a
// configuration. o needs no SocketRoot.
func Try(ctx context.Context, o Options, use func(*Supervisor)) []error {
	all := make(map[string]Settings, len(o.Settings))
	for name, s := range o.Settings {
		s.Expected = false
		all[name] = s
	}
	o.Settings = all
	names, err := plugindir.Names(o.Dir)
	if err != nil {
		return []error{fmt.Errorf("plugin configurations were not checked because no plugin of %s can be started", o.Dir)}
	}
	var errs []error
	names = slices.DeleteFunc(names, func(name string) bool {
		settings := o.Settings[name]
		if !settings.Disabled && checkPlugin(o, name) != nil {
			if len(settings.Config) > 0 {
				errs = append(errs, fmt.Errorf("plugin %s: its configuration was not checked because it cannot be started", name))
			}
			settings.Disabled = true
			o.Settings[name] = settings
		}
		return settings.Disabled
	})
	if len(names) == 0 {
		return errs
	}
	if o.SocketRoot, err = os.MkdirTemp("", "evictd-check-"); err != nil {
		return []error{err}
	}
	errs = append(errs, try(ctx, o, names, use)...)
	return append(errs, os.RemoveAll(o.SocketRoot))
}

func try(ctx context.Context, o Options, names []string, use func(*Supervisor)) []error {
	if err := os.Chmod(o.SocketRoot, 0o711); err != nil { // plugins' users must be able to traverse it
		return []error{err}
	}
	// No eviction waits for this.
	o.trial = true
	t := o.Timeouts.WithDefaults()
	o.Timeouts.Start = t.Handshake + t.Describe + t.Configure
	s, err := New(o)
	if err != nil {
		return []error{err}
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	var errs []error
	select {
	case <-s.Started():
		errs = reasons(s.Status(), names)
		use(s)
	case err := <-ended:
		return []error{err}
	case <-ctx.Done():
		errs = []error{ctx.Err()}
	}
	stop()
	return append(errs, <-ended)
}

func reasons(all []Status, names []string) []error {
	var errs []error
	for _, p := range all {
		if !slices.Contains(names, p.Name) || p.State == Running {
			continue
		}
		why := cmp.Or(p.Reason, p.LastError, "has not started in time")
		for line := range strings.SplitSeq(why, "\n") {
			errs = append(errs, fmt.Errorf("plugin %s: %s", p.Name, line))
		}
	}
	return errs
}
