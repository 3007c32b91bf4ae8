package supervisor

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
)

// reconcile makes members of the files in the directory, starts those that
// should run, has those replaced whose files are other ones, and ends those that
// should not run. Only Run calls it.
func (s *Supervisor) reconcile(ctx context.Context) error {
	files, err := plugindir.Look(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range files {
		// One that is put back counts fresh.
		if m := s.members[name]; m == nil || m.state == Removed && !m.running && !f.Dangling {
			s.members[name] = newMember(s, name)
			s.members[name].file = f.ID
		}
	}
	var begin []*member
	for _, name := range slices.Sorted(maps.Keys(s.members)) {
		m := s.members[name]
		f, there := files[name]
		if there && f.ID != m.file && !m.leaving {
			m.changed(f.ID)
		}
		m.dangling = f.Dangling
		if _, was := errors.AsType[unfit](m.reason); was && f.Fit && m.state == Refused {
			m.looks++
			signal(m.kick)
		}
		// A link to nothing is refused, and says so, when nothing runs.
		removed := !there || f.Dangling && m.instance != nil
		wanted := !removed && !s.settings[name].Disabled
		switch {
		case wanted && !m.running:
			m.running, m.leaving, m.file = true, false, f.ID
			begin = append(begin, m)
		case wanted, m.running && m.leaving:
			// It runs, or its end brings us here again.
		case m.running && removed:
			m.leave(Removed)
		case m.running:
			m.leave(Disabled)
		case !there:
			delete(s.members, name)
			s.metrics.PluginGone(name)
			s.unassigned()
			s.kickRefused()
		default:
			m.enter(Disabled, nil)
		}
	}
	s.begin(ctx, begin)
	return nil
}

// begin starts members. At the first call each is given a part in Started.
func (s *Supervisor) begin(ctx context.Context, members []*member) {
	if !s.begun {
		s.begun = true
		s.warnUnknown()
		s.untried, s.unsettled = len(members), len(members)
		if len(members) == 0 {
			close(s.tried)
			close(s.started)
		}
		for _, m := range members {
			m.first = true
		}
		limit, started := s.timeouts.Start, s.started
		s.wg.Go(func() { s.limitStart(ctx, limit, started) })
	}
	// The first that join are granted a slot at once.
	for _, first := range []bool{true, false} {
		for _, m := range members {
			if registry.Builtin(m.name) == first {
				m.firstSlot = s.starts.join(first)
			}
		}
	}
	for _, m := range members {
		m.enter(Starting, nil)
		s.metrics.PluginUp(m.name, false)
		mctx, cancel := context.WithCancel(ctx)
		m.cancel = cancel
		s.wg.Go(func() {
			defer cancel()
			m.run(mctx, ctx)
		})
	}
}

// warnUnknown tells of settings that nobody has, most likely a misspelled name.
// The mutex is held.
func (s *Supervisor) warnUnknown() {
	for _, name := range slices.Sorted(maps.Keys(s.settings)) {
		if s.members[name] == nil && name != everybody {
			s.log.Warn("settings for a plugin that is not there have no effect", "plugin", name, "pluginDir", s.dir)
		}
	}
	s.unassigned()
}
