package supervisor

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
	"github.com/evictd/evictd/shared/eviction"
)

// An Assignment says by signal and capability ("observe", "measure", "watch",
// "rank", "reclaim") which plugin is in charge, whatever else offers the same. The
// node's filesystem layout comes with observe of nodefs.available.
type Assignment map[eviction.Signal]map[string]string

// Reassign puts another assignment in force.
func (s *Supervisor) Reassign(a Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if maps.EqualFunc(s.assignment, a, maps.Equal) {
		return
	}
	s.assignment = a
	s.warnUnassigned()
	s.oust()
	s.publish()
	s.kickRefused()
	signal(s.rescan) // Plugins of this process have nobody else to ask.
}

// assigned returns who is in charge of o by the configuration, "" if it names
// nobody who is there and offers it. The mutex is held.
func (s *Supervisor) assigned(o offer) string {
	name := s.assignment[o.signal][o.verb()]
	if name == "" || s.absent(name, o) != "" {
		return ""
	}
	return name
}

// absent returns why an assignment to a plugin has no effect, "" if it has.
func (s *Supervisor) absent(name string, o offer) string {
	m := s.members[name]
	switch {
	case m == nil || m.leaving && m.state == Removed:
		return "is not there"
	case m.leaving || s.settings[name].Disabled:
		return "is disabled"
	case m.described != nil && !m.described.For(o.signal).Has(o.capability):
		return "does not offer it"
	default:
		return ""
	}
}

// unassigned looks at the assignment again after plugins have come or gone. The
// mutex is held.
func (s *Supervisor) unassigned() {
	if len(s.assignment) == 0 {
		return
	}
	former := s.ineffective
	s.warnUnassigned()
	if maps.Equal(former, s.ineffective) {
		return
	}
	s.oust()
	s.publish()
	s.kickRefused()
}

// warnUnassigned tells once of each assignment that has no effect. The mutex is
// held.
func (s *Supervisor) warnUnassigned() {
	former := s.ineffective
	s.ineffective = map[offer]string{}
	for _, sig := range slices.Sorted(maps.Keys(s.assignment)) {
		for c := range eviction.AllCapabilities().Each() {
			name := s.assignment[sig][c.String()]
			if name == "" {
				continue
			}
			o := offer{sig, c}
			why := s.absent(name, o)
			if why == "" {
				continue
			}
			if s.ineffective[o] = name + why; former[o] != name+why {
				s.log.Warn("assignment to a plugin has no effect", "signal", sig, "capability", c.String(), "plugin", name, "because", "it "+why)
			}
		}
	}
}

// oust takes plugins out of service that an assignment had let serve beside each
// other and that conflict without it: whoever was in charge stays. The mutex is
// held.
func (s *Supervisor) oust() {
	former := s.roster
	for n, a := range former.instances {
		for _, b := range former.instances[n+1:] {
			if a.condemned != nil || b.condemned != nil {
				continue
			}
			err := s.conflict(claim{a.Name, a.Plugin}, claim{b.Name, b.Plugin})
			if err == nil {
				continue
			}
			loser := b
			if former.before(b, a) && !former.before(a, b) {
				loser = a
			}
			s.condemn(loser, sentence{why: plugindir.Refusal{Err: err}})
		}
	}
}

// before reports whether a is in charge of something that b offers, too.
func (r *roster) before(a, b *Instance) bool {
	return slices.ContainsFunc(offers(b.Plugin), func(o offer) bool {
		who := r.providers[o]
		return len(who) > 0 && who[0] == a
	})
}
