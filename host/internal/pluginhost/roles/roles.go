// Package roles says which plugin does what and why: for the status, the log and refusals. It decides
// nothing: that is package registry.
package roles

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/host/internal/core/registry"
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
	InCharge = "in charge"
	// Fallback: it runs and is asked if the one in charge fails, or for reclaim after it.
	Fallback = "fallback"
	// Out: it does not run.
	Out = "out"
)

// A Role is a plugin's role for one capability of a signal, with the reason.
type Role struct {
	Capability string `json:"capability"`
	Role       string `json:"role"`
	// As is the signal that it is asked for instead: another one of the same filesystem.
	As  eviction.Signal `json:"as,omitempty"`
	Why string          `json:"why"`
	// Steps that run for the signal, in order: those of the plugin in charge of reclaim, whose role
	// lists them, and of its fallbacks.
	Steps []Step `json:"steps,omitempty"`
}

// A Step is a step of node-level reclaim and the plugin that runs it.
type Step struct {
	Step string `json:"step"`
	By   string `json:"by"`
}

// Of lists what the plugin of that name is asked for in a layout of the filesystems, 0 if unknown, or
// would be if it ran.
func Of(r *registry.Registry, name string, layout eviction.Layout) []Served {
	plugins := r.Plugins()
	n := slices.IndexFunc(plugins, func(p registry.Plugin) bool { return p.Name == name })
	if n < 0 || plugins[n].Said == nil {
		return nil
	}
	p := plugins[n]
	var all []Served
	for _, o := range reached(p.Said, layout) {
		role, asked := roleOf(r, p, o, layout)
		if !asked {
			continue
		}
		n := slices.IndexFunc(all, func(g Served) bool { return g.Signal == o.signal })
		if n < 0 {
			n = len(all)
			all = append(all, Served{Signal: o.signal, Offers: []string{}})
		}
		all[n].Roles = append(all[n].Roles, role)
		if p.Said.For(o.signal).Has(o.capability) {
			all[n].Offers = append(all[n].Offers, o.capability.String())
		}
		if role.Role == InCharge {
			all[n].InCharge = append(all[n].InCharge, o.capability.String())
		}
	}
	return all
}

// reached lists p's offers, then those that it serves under other signals of the same filesystem.
func reached(p *eviction.Plugin, layout eviction.Layout) []offer {
	all := offers(p)
	for _, sig := range eviction.BuiltinSignals() {
		for c := range eviction.AllCapabilities().Each() {
			offered := func(name eviction.Signal) bool { return p.For(name).Has(c) }
			if !offered(sig) && slices.ContainsFunc(layout.ServedWith(sig, c), offered) {
				all = append(all, offer{sig, c})
			}
		}
	}
	return all
}

// roleOf returns the role of p for an offer, false if it is not asked for it because of an assignment to
// the kubelet's summary.
func roleOf(r *registry.Registry, p registry.Plugin, o offer, layout eviction.Layout) (role Role, asked bool) {
	role.Capability = o.capability.String()
	if p.Instance == nil {
		role.Role, role.Why = Out, p.State
		return role, true
	}
	who := r.Serving(layout, o.signal, o.capability)
	n := slices.IndexFunc(who, func(w registry.Provider) bool { return w.Instance == p.Instance })
	if n < 0 {
		return role, false
	}
	role.Role, role.Why = Fallback, why(r, o, who, layout)
	if who[n].As != o.signal {
		role.As = who[n].As
	}
	if n == 0 {
		role.Role = InCharge
	}
	if n == 0 && o.capability == eviction.CanReclaim {
		for _, s := range registry.Steps(who, o.signal, layout) {
			role.Steps = append(role.Steps, Step{s.Name, s.By.Name})
		}
	}
	return role, true
}

// why returns why the first of who is in charge of o.
func why(r *registry.Registry, o offer, who []registry.Provider, layout eviction.Layout) string {
	text, others := precedence(r, o, who), ""
	for _, name := range slices.Backward(layout.ServedWith(o.signal, o.capability)) {
		of := offer{name, o.capability}
		to := r.Assignment()[name][o.capability.String()]
		switch {
		case to == "":
		case r.Assignee(of.signal, of.capability) == who[0].Name && name == o.signal:
			text = "assigned"
		case r.Assignee(of.signal, of.capability) == who[0].Name:
			text = "assigned for " + string(name)
		case name == o.signal:
			others = fmt.Sprintf("; assigned to %s, which %s", to, unassignedWhy(r, to, of, who)) + others
		default:
			others = fmt.Sprintf("; %s is assigned to %s, which %s", name, to, unassignedWhy(r, to, of, who)) + others
		}
	}
	if as := who[0].As; as != o.signal {
		text += fmt.Sprintf("; asked for %s, the same filesystem", as)
	}
	return text + others
}

// unassignedWhy returns why an assignment of o to a plugin does not put it in charge.
func unassignedWhy(r *registry.Registry, name string, o offer, who []registry.Provider) string {
	n := slices.IndexFunc(who, func(p registry.Provider) bool { return p.Name == name })
	switch why := r.WithoutEffect(name, o.signal, o.capability); {
	case why != "":
		return why
	case n < 0:
		return "does not run"
	case o.capability != eviction.CanWatch && r.Slow(who[n].Instance):
		return "answers too slowly"
	default:
		return "counts less"
	}
}

// precedence returns why the first of who is in charge of o if none of them is assigned.
func precedence(r *registry.Registry, o offer, who []registry.Provider) string {
	slow := func(p registry.Provider) bool { return r.Slow(p.Instance) }
	signal, _ := eviction.Builtin(o.signal)
	why := "custom before built-in"
	switch {
	case len(who) == 1:
		return "only provider"
	case o.capability != eviction.CanWatch && slices.ContainsFunc(who, slow) && !slow(who[0]):
		return "others answer too slowly"
	case who[0].Builtin() == who[1].Builtin():
		why = "first by name"
	}
	if o.capability == eviction.CanObserve && signal.FromKernel && !who[0].Builtin() && who[len(who)-1].Builtin() {
		why += "; the built-in one is asked too, the worse figure counts"
	}
	return why
}

// Ineffective is an assignment that has no effect.
type Ineffective struct {
	Signal     eviction.Signal
	Capability string
	Plugin     string
	// Because is the reason, such as "it is not there".
	Because string
}

// WithoutEffect lists the assignments that have no effect.
func WithoutEffect(r *registry.Registry) []Ineffective {
	var all []Ineffective
	for sig, of := range r.Assignment() {
		for c := range eviction.AllCapabilities().Each() {
			name := of[c.String()]
			if name == "" {
				continue
			}
			if why := r.WithoutEffect(name, sig, c); why != "" {
				all = append(all, Ineffective{sig, c.String(), name, "it " + why})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Ineffective) int { return cmp.Compare(a.Signal, b.Signal) })
	return all
}

// Conflict returns why i cannot serve beside the running plugins that precede it by name, nil if it
// can: they define a custom signal differently.
func Conflict(r *registry.Registry, i *registry.Instance) error {
	var errs []error
	for _, other := range r.Instances() {
		if other.Name >= i.Name {
			continue
		}
		for _, s := range other.Plugin.Signals {
			for _, t := range i.Plugin.Signals {
				if s.Signal == t.Signal && s.Definition != nil && t.Definition != nil && *s.Definition != *t.Definition {
					errs = append(errs, fmt.Errorf("plugins %q and %q define %s differently, want the same unit, format, resource and condition", other.Name, i.Name, s.Signal))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// An offer is a capability that a plugin offers for a signal.
type offer struct {
	signal     eviction.Signal
	capability eviction.Capability
}

// offers lists what p offers, in the order of its signals.
func offers(p *eviction.Plugin) []offer {
	var all []offer
	for _, s := range p.Signals {
		for c := range p.For(s.Signal).Each() {
			all = append(all, offer{s.Signal, c})
		}
	}
	return all
}

// Offers lists what p offers, such as "rank memory.available".
func Offers(p *eviction.Plugin) []string {
	var names []string
	for _, o := range offers(p) {
		names = append(names, o.capability.String()+" "+string(o.signal))
	}
	return names
}
