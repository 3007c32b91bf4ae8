package supervisor

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// Served is what a plugin offers for a signal, by this very name, and what of it it is
// in charge of, by whatever name.
type Served struct {
	Signal   eviction.Signal `json:"signal"`
	Offers   []string        `json:"offers"`
	InCharge []string        `json:"inCharge,omitempty"`
	Roles    []Role          `json:"roles"`
}

// The roles of a plugin for one capability of a signal.
const (
	RoleInCharge = "in charge"
	// RoleShadowed is one that runs and is asked when the one in charge fails.
	RoleShadowed = "shadowed"
	// RoleOut is one that does not run.
	RoleOut = "out"
	// RoleNone is one that is not asked with the layout of now.
	RoleNone = "none"
)

// A Role is what a plugin is to one capability of a signal, and why.
type Role struct {
	Capability string `json:"capability"`
	Role       string `json:"role"`
	// As is the signal that it is asked for instead: another name of the same
	// filesystem.
	As  eviction.Signal `json:"as,omitempty"`
	Why string          `json:"why"`
	// Layouts are those with which the plugin is in charge, nil if that does not
	// depend on the layout.
	Layouts []string `json:"layouts,omitzero"`
}

// layouts is how the filesystems are laid out now, 0 if that is not known, and how they
// may be.
type layouts struct {
	now      eviction.Layout
	possible []eviction.Layout
}

// served lists what m is asked for, or would be. The mutex is held.
func (s *Supervisor) served(m *member, said *eviction.Plugin, in layouts) []Served {
	if !s.serves(m) {
		in.possible = nil
	}
	var all []Served
	for _, o := range in.reached(said) {
		role := s.role(m, o, in)
		byName := said.For(o.signal).Has(o.capability)
		if !byName && role.Role == RoleNone && len(role.Layouts) == 0 {
			continue
		}
		n := slices.IndexFunc(all, func(g Served) bool { return g.Signal == o.signal })
		if n < 0 {
			n = len(all)
			all = append(all, Served{Signal: o.signal, Offers: []string{}})
		}
		all[n].Roles = append(all[n].Roles, role)
		if byName {
			all[n].Offers = append(all[n].Offers, o.verb())
		}
		if role.Role == RoleInCharge {
			all[n].InCharge = append(all[n].InCharge, o.verb())
		}
	}
	return all
}

// serves reports whether an instance of m may be asked.
func (s *Supervisor) serves(m *member) bool {
	return m.instance != nil && slices.Contains(s.roster.instances, m.instance)
}

// reached lists what p offers and, after it, what that is good for under the other names
// of a filesystem.
func (in layouts) reached(p *eviction.Plugin) []offer {
	all := offers(p)
	for _, sig := range eviction.BuiltinSignals() {
		for c := range eviction.AllCapabilities().Each() {
			offered := func(name eviction.Signal) bool { return p.For(name).Has(c) }
			served := func(l eviction.Layout) bool { return slices.ContainsFunc(l.ServedWith(sig, c), offered) }
			if !offered(sig) && (served(in.now) || slices.ContainsFunc(in.possible, served)) {
				all = append(all, offer{sig, c})
			}
		}
	}
	return all
}

// role is what m is to o. The mutex is held.
func (s *Supervisor) role(m *member, o offer, in layouts) Role {
	who := s.roster.serving(in.now, o)
	r := Role{Capability: o.verb(), Layouts: s.roster.layoutsOf(m.instance, o, in)}
	n := slices.IndexFunc(who, func(p Provider) bool { return p.Instance == m.instance })
	switch {
	case !s.serves(m):
		r.Role, r.Why = RoleOut, string(m.state)
		return r
	case n < 0:
		r.Role, r.Why = RoleNone, "another filesystem with this layout"
		if in.now == 0 {
			r.Why = "the layout is not known"
		}
		return r
	case n == 0:
		r.Role = RoleInCharge
	default:
		r.Role = RoleShadowed
	}
	if who[n].As != o.signal {
		r.As = who[n].As
	}
	r.Why = s.why(o, who, in.now)
	return r
}

// layoutsOf are those with which i is in charge of o, nil if it does not depend on the
// layout who is.
func (r *roster) layoutsOf(i *Instance, o offer, in layouts) []string {
	first := func(l eviction.Layout) *Instance {
		if who := r.serving(l, o); len(who) > 0 {
			return who[0].Instance
		}
		return nil
	}
	now, mine, depends := first(in.now), []string{}, false
	for _, l := range in.possible {
		at := first(l)
		depends = depends || at != now
		if at == i {
			mine = append(mine, l.String())
		}
	}
	if !depends {
		return nil
	}
	return mine
}

// why is the reason for the first of who to be in charge of o.
func (s *Supervisor) why(o offer, who []Provider, layout eviction.Layout) string {
	why, others := s.precedence(o, who), ""
	for _, name := range slices.Backward(layout.ServedWith(o.signal, o.capability)) {
		of := offer{name, o.capability}
		to := s.assignment[name][o.verb()]
		switch {
		case to == "":
		case s.roster.assigned[of] == who[0].Name && name == o.signal:
			why = "assigned"
		case s.roster.assigned[of] == who[0].Name:
			why = "assigned for " + string(name)
		case name == o.signal:
			others = fmt.Sprintf("; assigned to %s, which %s", to, s.ineffectual(to, of, who)) + others
		default:
			others = fmt.Sprintf("; %s is assigned to %s, which %s", name, to, s.ineffectual(to, of, who)) + others
		}
	}
	if as := who[0].As; as != o.signal {
		why += fmt.Sprintf("; asked for %s, the same filesystem", as)
	}
	return why + others
}

// ineffectual is why an assignment of o to a plugin does not put it first of who.
func (s *Supervisor) ineffectual(name string, o offer, who []Provider) string {
	n := slices.IndexFunc(who, func(p Provider) bool { return p.Name == name })
	switch why := s.absent(name, o); {
	case why != "":
		return why
	case n < 0:
		return "does not run"
	case waitedFor(o.capability) && s.slow(who[n].Instance):
		return "answers too slowly"
	default:
		return "counts less"
	}
}

// precedence is the reason for the first of who to be in charge of o if none of them is
// assigned.
func (s *Supervisor) precedence(o offer, who []Provider) string {
	slow := func(p Provider) bool { return s.slow(p.Instance) }
	switch {
	case len(who) == 1:
		return "only provider"
	case waitedFor(o.capability) && slices.ContainsFunc(who, slow) && !slow(who[0]):
		return "others answer too slowly"
	case o.capability == eviction.CanObserve && policy.WantsSecondLook(o.signal) && !who[0].Builtin():
		return "custom before built-in; both are asked, the worse figure counts"
	case who[0].Builtin() == who[1].Builtin():
		return "by name" // beside an assigned plugin that does not run now
	default:
		return "custom before built-in"
	}
}
