package registry

import (
	"fmt"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Served lists a plugin's offers for exactly this signal, and its roles for it under any signal of
// the same filesystem.
type Served struct {
	Signal   eviction.Signal `json:"signal"`
	Offers   []string        `json:"offers"`
	InCharge []string        `json:"inCharge,omitempty"`
	Roles    []Role          `json:"roles"`
}

// The roles of a plugin for one capability of a signal.
const (
	RoleInCharge = "in charge"
	// RoleShadowed: it runs and is asked if the one in charge fails, or for reclaim after it.
	RoleShadowed = "shadowed"
	// RoleShadow: it ranks beside the one in charge, without effect.
	RoleShadow = "shadow"
	// RoleOut: it does not run.
	RoleOut = "out"
	// RoleNone: it is not asked with the present layout.
	RoleNone = "none"
)

// A Role is a plugin's role for one capability of a signal, with the reason.
type Role struct {
	Capability string `json:"capability"`
	Role       string `json:"role"`
	// As is the signal that it is asked for instead: another one of the same filesystem.
	As  eviction.Signal `json:"as,omitempty"`
	Why string          `json:"why"`
	// Layouts in which the plugin is in charge, nil if that does not depend on the layout.
	Layouts []string `json:"layouts,omitzero"`
	// Steps that run for the signal, in order: those of the plugin in charge of reclaim, whose role
	// lists them, and of the others, including shadowed ones.
	Steps []RoleStep `json:"steps,omitempty"`
}

// A RoleStep is a step of node-level reclaim and the plugin that runs it.
type RoleStep struct {
	Step string `json:"step"`
	By   string `json:"by"`
}

// Layouts holds the present layout of the filesystems, 0 if unknown, and the possible ones.
type Layouts struct {
	Now      eviction.Layout
	Possible []eviction.Layout
}

// Served lists what the plugin of that name is asked for, or would be if it ran.
func (r *Registry) Served(name string, in Layouts) []Served {
	n := slices.IndexFunc(r.plugins, func(p Plugin) bool { return p.Name == name })
	if n < 0 || r.plugins[n].Said == nil {
		return nil
	}
	p := r.plugins[n]
	if p.Instance == nil {
		in.Possible = nil
	}
	var all []Served
	for _, o := range in.reached(p.Said) {
		role := r.role(p, o, in)
		byName := p.Said.For(o.signal).Has(o.capability)
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
			all[n].Offers = append(all[n].Offers, o.capability.String())
		}
		if role.Role == RoleInCharge {
			all[n].InCharge = append(all[n].InCharge, o.capability.String())
		}
	}
	return all
}

// reached lists p's offers, followed by those that it serves under other signals of the same
// filesystem.
func (in Layouts) reached(p *eviction.Plugin) []offer {
	all := offers(p)
	for _, sig := range eviction.BuiltinSignals() {
		for c := range eviction.AllCapabilities().Each() {
			offered := func(name eviction.Signal) bool { return p.For(name).Has(c) }
			served := func(l eviction.Layout) bool { return slices.ContainsFunc(l.ServedWith(sig, c), offered) }
			if !offered(sig) && (served(in.Now) || slices.ContainsFunc(in.Possible, served)) {
				all = append(all, offer{sig, c})
			}
		}
	}
	return all
}

// role returns the role of p for the offer o.
func (r *Registry) role(p Plugin, o offer, in Layouts) Role {
	who := r.Serving(in.Now, o.signal, o.capability)
	role := Role{Capability: o.capability.String(), Layouts: r.layoutsOf(p.Instance, o, in)}
	n := slices.IndexFunc(who, func(w Provider) bool { return w.Instance == p.Instance })
	switch {
	case p.Instance == nil:
		role.Role, role.Why = RoleOut, p.State
		return role
	case p.Shadow && o.capability == eviction.CanRank:
		role.Role, role.Why = RoleShadow, "ranks beside the one in charge, without effect"
		return role
	case p.Shadow:
		role.Role, role.Why = RoleNone, "a shadow ranks only"
		return role
	case n < 0:
		role.Role, role.Why = RoleNone, "another filesystem with this layout"
		if in.Now == 0 {
			role.Why = "the layout is not known"
		}
		return role
	case n == 0:
		role.Role = RoleInCharge
		if o.capability == eviction.CanReclaim {
			for _, s := range Steps(who, o.signal, in.Now) {
				role.Steps = append(role.Steps, RoleStep{s.Name, s.By.Name})
			}
		}
	default:
		role.Role = RoleShadowed
	}
	if who[n].As != o.signal {
		role.As = who[n].As
	}
	role.Why = r.why(o, who, in.Now)
	return role
}

// layoutsOf returns the layouts in which i is in charge of o, nil if that does not depend on the
// layout.
func (r *Registry) layoutsOf(i *Instance, o offer, in Layouts) []string {
	first := func(l eviction.Layout) *Instance {
		if who := r.Serving(l, o.signal, o.capability); len(who) > 0 {
			return who[0].Instance
		}
		return nil
	}
	now, mine, depends := first(in.Now), []string{}, false
	for _, l := range in.Possible {
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

// why returns why the first of who is in charge of o.
func (r *Registry) why(o offer, who []Provider, layout eviction.Layout) string {
	why, others := r.precedence(o, who), ""
	for _, name := range slices.Backward(layout.ServedWith(o.signal, o.capability)) {
		of := offer{name, o.capability}
		to := r.assignment[name][o.capability.String()]
		switch {
		case to == "":
		case r.assigned[of] == who[0].Name && name == o.signal:
			why = "assigned"
		case r.assigned[of] == who[0].Name:
			why = "assigned for " + string(name)
		case name == o.signal:
			others = fmt.Sprintf("; assigned to %s, which %s", to, r.unassignedWhy(to, of, who)) + others
		default:
			others = fmt.Sprintf("; %s is assigned to %s, which %s", name, to, r.unassignedWhy(to, of, who)) + others
		}
	}
	if as := who[0].As; as != o.signal {
		why += fmt.Sprintf("; asked for %s, the same filesystem", as)
	}
	return why + others
}

// unassignedWhy returns why an assignment of o to a plugin does not put it in charge.
func (r *Registry) unassignedWhy(name string, o offer, who []Provider) string {
	n := slices.IndexFunc(who, func(p Provider) bool { return p.Name == name })
	switch why := r.ineffective(name, o); {
	case why != "":
		return why
	case n < 0:
		return "does not run"
	case waitedFor(o.capability) && r.slow[who[n].Instance]:
		return "answers too slowly"
	default:
		return "counts less"
	}
}

// precedence returns why the first of who is in charge of o if none of them is assigned.
func (r *Registry) precedence(o offer, who []Provider) string {
	slow := func(p Provider) bool { return r.slow[p.Instance] }
	signal, _ := eviction.Builtin(o.signal)
	why := "custom before built-in"
	switch {
	case len(who) == 1:
		return "only provider"
	case waitedFor(o.capability) && slices.ContainsFunc(who, slow) && !slow(who[0]):
		return "others answer too slowly"
	case who[0].Builtin() == who[1].Builtin():
		why = "first by name"
	}
	if o.capability == eviction.CanObserve && signal.FromKernel && !who[0].Builtin() && who[len(who)-1].Builtin() {
		why += "; the built-in one is asked too, the worse figure counts"
	}
	return why
}
