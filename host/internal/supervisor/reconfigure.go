package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Reconfigure puts new facts and settings into force, whole or not at all: when
// a plugin refuses, those that had accepted get the former ones back, and the
// error says who refused and why. Plugins that do not run get the new settings
// when they start; those that were refused or failed are tried again. One whose
// settings need another process serves with the former ones until that takes over,
// and ends if they demand a pin that it does not have.
func (s *Supervisor) Reconfigure(ctx context.Context, node eviction.NodeFacts, settings map[string]Settings) error {
	select {
	case s.reconfiguring <- struct{}{}:
		defer func() { <-s.reconfiguring }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := checkTerms(settings); err != nil {
		return err
	}
	s.mu.Lock()
	formerNode, former := s.node, s.settings
	s.mu.Unlock()
	var seen, told []*process
	for {
		next := s.nextToTell(node, settings, seen)
		if next == nil {
			return nil
		}
		seen = append(seen, next)
		req := eviction.ConfigureRequest{Node: node, Config: settings[next.Name].Config}
		if next.client.Knows(req) {
			continue
		}
		told = append(told, next)
		err := next.client.Configure(ctx, req)
		if err == nil {
			continue
		}
		return errors.Join(fmt.Errorf("plugin %s: %w", next.Name, err), s.takeBack(ctx, formerNode, former, told, err))
	}
}

// checkTerms finds what no process could be started with, whatever its file.
func checkTerms(all map[string]Settings) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Disabled {
			continue
		}
		if err := startPolicyFor(all, name).Possible(); err != nil {
			errs = append(errs, fmt.Errorf("plugin %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// nextToTell returns an instance that was not seen yet and has to agree to the
// new settings. When there is none they are in force from that moment on.
func (s *Supervisor) nextToTell(node eviction.NodeFacts, settings map[string]Settings, seen []*process) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		i := s.members[name].instance
		if i == nil || settings[name].Disabled || i.outdated(settings) || slices.Contains(seen, i) {
			continue
		}
		return i
	}
	s.node, s.settings = node, maps.Clone(settings)
	s.revision++
	for _, i := range seen {
		i.revision = s.revision
	}
	for name, m := range s.members {
		if i, t := m.instance, startPolicyFor(settings, name); i != nil && i.conn != nil && t.Unpinned() {
			s.condemn(i, sentence{why: errAgain}) // It must not serve, and no other process may.
		}
		signal(m.renew) // It may need a new process, or another attempt at one.
	}
	s.warnUnknown()
	s.kickAll()
	signal(s.rescan)
	return nil
}

// ended reports whether an instance does not serve any more.
func (s *Supervisor) ended(i *process) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[i.Name]
	return m == nil || m.instance != i || i.condemned != nil
}

// takeBack puts the former settings into force again where new ones were
// accepted. A plugin of which it is not certain what it has is started anew.
func (s *Supervisor) takeBack(ctx context.Context, node eviction.NodeFacts, settings map[string]Settings, told []*process, refused error) error {
	// The caller's deadline must not leave half of it undone; each call has its own.
	ctx = context.WithoutCancel(ctx)
	var errs []error
	for n, i := range slices.Backward(told) {
		var err error
		if n == len(told)-1 {
			if errors.Is(refused, eviction.ErrRefused) || s.ended(i) {
				continue // It has kept the former ones, or gets them when it starts.
			}
			err = refused
		} else if err = i.client.Configure(ctx, eviction.ConfigureRequest{Node: node, Config: settings[i.Name].Config}); err == nil || s.ended(i) {
			continue
		} else {
			errs = append(errs, fmt.Errorf("plugin %s: put the former configuration back: %w", i.Name, err))
		}
		s.mu.Lock()
		s.condemn(i, sentence{why: err, hung: true})
		s.mu.Unlock()
	}
	return errors.Join(errs...)
}
