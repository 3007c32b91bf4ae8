package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// Reconfigure puts new facts and settings into force, completely or not at all: if a plugin
// refuses, those that had accepted get the former ones back, and the error names the plugin and the
// reason. Plugins that do not run get the new settings when they start; refused or failed ones are
// retried. If a plugin's settings require another process, the old one serves until that takes
// over, and ends if they demand a pin that its file does not match.
func (s *Supervisor) Reconfigure(ctx context.Context, node eviction.NodeFacts, settings map[string]Settings) error {
	select {
	case s.reconfiguring <- struct{}{}:
		defer func() { <-s.reconfiguring }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := checkPolicies(s.control.Dir, settings); err != nil {
		return err
	}
	var (
		formerNode     eviction.NodeFacts
		former         map[string]Settings
		seen, reported []*process
	)
	for {
		var next *process
		if !s.call(func(c *controller) {
			if seen == nil {
				formerNode, former = c.Node, c.Settings
			}
			next = c.nextPending(node, settings, seen)
		}) {
			return errEnded
		}
		if next == nil {
			return nil
		}
		seen = append(seen, next)
		req := settings[next.Name].configuration(node)
		if next.client.Knows(req.ConfigureRequest) {
			continue
		}
		reported = append(reported, next)
		if err := next.client.Configure(ctx, req); err != nil {
			return errors.Join(fmt.Errorf("plugin %s: %w", next.Name, err), s.takeBack(ctx, formerNode, former, reported, err))
		}
	}
}

var errEnded = errors.New("plugins have ended")

// Reassign puts another assignment in force.
func (s *Supervisor) Reassign(a registry.Assignment) {
	s.call(func(c *controller) {
		if !maps.EqualFunc(c.Assign, a, maps.Equal) {
			c.Assign, c.changed = a, true
		}
	})
}

// checkPolicies returns errors in settings with which no process could start.
func checkPolicies(dir string, all map[string]Settings) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Disabled {
			continue
		}
		policy := startPolicyFor(all, name)
		err := policy.Possible()
		path, socket := plugindir.Path(dir, name)
		if _, missing := os.Lstat(path); socket || missing != nil { // it may come as a socket
			_, err = plugindir.Users(policy.User)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// nextPending returns a process not yet seen that must accept the new settings. If there is none
// they are in force from then on.
func (c *controller) nextPending(node eviction.NodeFacts, settings map[string]Settings, seen []*process) *process {
	for _, p := range c.sorted() {
		proc := p.serving
		if proc == nil || settings[p.Name].Disabled || !c.Inside.has(p.Name, proc.file) && proc.outdatedBy(settings) || slices.Contains(seen, proc) {
			continue
		}
		return proc
	}
	if !maps.EqualFunc(c.Settings, settings, func(a, b Settings) bool { return bytes.Equal(a.Config, b.Config) }) {
		c.changed = true // It may enable other reclaim steps.
	}
	c.Node, c.Settings = node, maps.Clone(settings)
	for _, p := range c.plugins {
		if p.serving != nil && !c.Inside.has(p.Name, p.serving.file) && startPolicyFor(settings, p.Name).unpinned() {
			c.takeOut(p, errOutdated, false) // Neither it nor any other process may serve.
		}
		p.wake() // It may need a new process, or another attempt.
	}
	c.warnUnknown()
	return nil
}

// takeBack restores the former settings in processes that accepted the new ones. A plugin whose
// configuration is uncertain is restarted.
func (s *Supervisor) takeBack(ctx context.Context, node eviction.NodeFacts, settings map[string]Settings, reported []*process, refused error) error {
	// The caller's deadline must not interrupt this half way; each call has its own.
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for n, proc := range slices.Backward(reported) {
		err := refused
		if n < len(reported)-1 {
			if err = proc.client.Configure(ctx, settings[proc.Name].configuration(node)); err == nil {
				continue
			}
		} else if errors.Is(refused, eviction.ErrRefused) {
			continue // It has kept the former ones.
		}
		s.call(func(c *controller) {
			p := c.plugins[proc.Name]
			if p == nil || p.serving != proc {
				return // It gets them when it starts.
			}
			if n < len(reported)-1 {
				errs = append(errs, fmt.Errorf("plugin %s: put the former configuration back: %w", proc.Name, err))
			}
			if !c.Inside.has(p.Name, proc.file) {
				c.takeOut(p, err, true)
			}
		})
	}
	return errors.Join(errs...)
}
