package registry

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/shared/eviction"
)

// An Assignment names, by signal and capability ("observe", "measure", "watch", "rank", "reclaim"),
// the plugin in charge, regardless of other offers. Observe of nodefs.available includes the layout
// of the node's filesystems.
type Assignment map[eviction.Signal]map[string]string

// Summary is the plugin with the figures of the kubelet's summary. It serves what is assigned to it,
// for signals of other plugins that are there: a signal is switched off with its plugin. What is
// assigned to it no built-in plugin serves: the figures of a pass come from one source.
const Summary = "summary"

// A Plugin describes one plugin at one moment.
type Plugin struct {
	Name string
	// State of the plugin, for messages.
	State string
	// Said is the plugin's last description of itself, nil if it never gave one.
	Said *eviction.Plugin
	// Instance is the serving instance, nil if there is none.
	Instance *Instance
	// Config is its configuration as JSON.
	Config string
	// Slow plugins are asked after all others for what the host waits for.
	Slow bool
	// Unassignable is why it cannot be assigned, such as "is disabled"; "" if it can.
	Unassignable string
	// Missing is why it does not serve although it should, nil otherwise. A plugin that has just
	// started serves from the next pass on.
	Missing error
	// Observes lists the signals that are missing without it.
	Observes []eviction.Signal
	// FirstStart: it has neither served nor failed by itself.
	FirstStart bool
}

// A Registry assigns plugins to signals and capabilities. It is immutable.
type Registry struct {
	plugins    []Plugin
	assignment Assignment
	instances  []*Instance
	providers  map[offer][]*Instance
	// assigned names the plugins that the configuration puts in charge.
	assigned map[offer]string
	// slow holds the plugins asked after all others.
	slow map[*Instance]bool
	// configs holds the plugins' configurations, which may enable reclaim steps.
	configs map[*Instance]string
	// layouts holds the plugins that report the layout of the filesystems.
	layouts []*Instance
}

// New determines the order of plugins for each offer: the assigned one first, then custom before
// built-in, then by name. Slow ones come last for what the host waits for.
func New(plugins []Plugin, a Assignment) *Registry {
	r := &Registry{
		plugins: plugins, assignment: a,
		providers: map[offer][]*Instance{}, assigned: map[offer]string{}, slow: map[*Instance]bool{}, configs: map[*Instance]string{},
	}
	for _, p := range plugins {
		if p.Instance != nil {
			r.instances = append(r.instances, p.Instance)
			r.slow[p.Instance], r.configs[p.Instance] = p.Slow, p.Config
		}
	}
	slices.SortFunc(r.instances, r.order(0, ""))
	for _, i := range r.instances {
		for _, s := range i.Plugin.Signals {
			for c := range i.Plugin.For(s.Signal).Each() {
				if !r.Withheld(i, s.Signal, c) {
					o := offer{s.Signal, c}
					r.providers[o] = append(r.providers[o], i)
				}
			}
		}
		if i.Plugin.OwnsLayout && !r.Withheld(i, layoutOffer.signal, layoutOffer.capability) {
			r.layouts = append(r.layouts, i)
		}
	}
	for o, who := range r.providers {
		name := r.assignee(o)
		slices.SortFunc(who, r.order(o.capability, name))
		if who[0].Name == name {
			r.assigned[o] = name
		}
	}
	slices.SortFunc(r.layouts, r.order(layoutOffer.capability, r.assignee(layoutOffer)))
	return r
}

// Withheld reports whether i is not asked for c of sig although it offers it, because of an assignment
// to Summary or for lack of one.
func (r *Registry) Withheld(i *Instance, sig eviction.Signal, c eviction.Capability) bool {
	assigned := r.assignment[sig][c.String()] == Summary && r.Named(Summary) != nil
	if i.Name != Summary {
		return assigned && i.Builtin()
	}
	there := func(p Plugin) bool {
		return p.Name != Summary && (p.Instance != nil || p.Missing != nil) && slices.Contains(p.Observes, sig)
	}
	return !assigned || !slices.ContainsFunc(r.plugins, there)
}

// order compares plugins that offer c: slow ones last if an eviction waits for c, then the assigned
// one, custom before built-in, and by name.
func (r *Registry) order(c eviction.Capability, assigned string) func(a, b *Instance) int {
	return func(a, b *Instance) int {
		waits := c != eviction.CanWatch
		return cmp.Or(
			policy.TrueFirst(!waits || !r.slow[a], !waits || !r.slow[b]),
			policy.TrueFirst(a.Name == assigned, b.Name == assigned),
			policy.TrueFirst(!a.Builtin(), !b.Builtin()),
			cmp.Compare(a.Name, b.Name),
		)
	}
}

// Slow reports whether i is asked after all others.
func (r *Registry) Slow(i *Instance) bool { return r.slow[i] }

// Instances returns all serving instances, custom ones first. The caller must not modify the slice.
func (r *Registry) Instances() []*Instance { return r.instances }

// Named returns the instance of the plugin of that name, nil if there is none.
func (r *Registry) Named(name string) *Instance {
	if i := slices.IndexFunc(r.instances, func(i *Instance) bool { return i.Name == name }); i >= 0 {
		return r.instances[i]
	}
	return nil
}

// Providers returns the plugins that offer c for sig: the one in charge, then its fallbacks. The
// caller must not modify the slice.
func (r *Registry) Providers(sig eviction.Signal, c eviction.Capability) []*Instance {
	return r.providers[offer{sig, c}]
}

// Assignee returns the plugin that is in charge of c for sig by the configuration, "" for none.
func (r *Registry) Assignee(sig eviction.Signal, c eviction.Capability) string {
	return r.assigned[offer{sig, c}]
}

// Plugins returns all plugins. The caller must not modify the slice.
func (r *Registry) Plugins() []Plugin { return r.plugins }

// Assignment returns the assignment that the registry was made with.
func (r *Registry) Assignment() Assignment { return r.assignment }

// A Provider is a plugin that serves a capability of a signal.
type Provider struct {
	*Instance
	// As is the signal to ask it for: possibly another signal of the same filesystem.
	As eviction.Signal
	// Config is the plugin's configuration as JSON.
	Config string
}

// Serving returns the plugins that serve c for sig in a layout: the one in charge, then its
// fallbacks. Several signals may be one filesystem, and an offer for any of them serves them all,
// so that one plugin is in charge. Of several assignments for one filesystem that of nodefs counts,
// else that of imagefs.
func (r *Registry) Serving(layout eviction.Layout, sig eviction.Signal, c eviction.Capability) []Provider {
	var all []Provider
	names, assigned := layout.ServedWith(sig, c), ""
	for _, name := range names {
		assigned = cmp.Or(assigned, r.assigned[offer{name, c}])
		for _, i := range r.providers[offer{name, c}] {
			n := slices.IndexFunc(all, func(p Provider) bool { return p.Instance == i })
			switch {
			case n < 0:
				all = append(all, Provider{i, name, r.configs[i]})
			case name == sig:
				all[n].As = name
			}
		}
	}
	if len(names) > 1 {
		order := r.order(c, assigned)
		slices.SortFunc(all, func(a, b Provider) int { return order(a.Instance, b.Instance) })
	}
	return all
}

// Layouts returns the plugins that report the layout of the node's filesystems, the one in charge
// first. Their Observe reports the layout whatever signals it is asked for. The caller must not
// modify the slice.
func (r *Registry) Layouts() []*Instance { return r.layouts }

// Definition returns the running plugins' definition of a custom signal, and false if none defines
// it. Plugins with different definitions do not serve together.
func (r *Registry) Definition(sig eviction.Signal) (eviction.Definition, bool) {
	for _, i := range r.instances {
		for _, s := range i.Plugin.Signals {
			if s.Signal == sig && s.Definition != nil {
				return *s.Definition, true
			}
		}
	}
	return eviction.Definition{}, false
}

// awaited returns the reason of the first plugin that should observe sig, does not serve in pass,
// and satisfies ok.
func (r *Registry) awaited(pass *Registry, sig eviction.Signal, ok func(Plugin) bool) error {
	for _, p := range r.plugins {
		serves := p.Instance != nil && slices.Contains(pass.instances, p.Instance)
		if p.Missing != nil && !serves && slices.Contains(p.Observes, sig) && ok(p) {
			return p.Missing
		}
	}
	return nil
}

// assignee returns the assigned plugin for o, "" if there is none or the assignment has no effect.
func (r *Registry) assignee(o offer) string {
	name := r.assignment[o.signal][o.capability.String()]
	if name == "" || r.WithoutEffect(name, o.signal, o.capability) != "" {
		return ""
	}
	return name
}

// WithoutEffect returns why an assignment of c for sig to a plugin has no effect, "" if it has one.
func (r *Registry) WithoutEffect(name string, sig eviction.Signal, c eviction.Capability) string {
	n := slices.IndexFunc(r.plugins, func(p Plugin) bool { return p.Name == name })
	switch {
	case n < 0:
		return "is not there"
	case r.plugins[n].Unassignable != "":
		return r.plugins[n].Unassignable
	case r.plugins[n].Said != nil && !r.plugins[n].Said.For(sig).Has(c):
		return "does not offer it"
	default:
		return ""
	}
}

// An offer is a capability that a plugin offers for a signal.
type offer struct {
	signal     eviction.Signal
	capability eviction.Capability
}

// layoutOffer is the offer that includes reporting the layout of the filesystems.
var layoutOffer = offer{eviction.NodeFsAvailable, eviction.CanObserve}
