package supervisor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// builtin reports whether a plugin of that name comes with the host. All others
// are custom and go before them.
func builtin(name string) bool { return len(eviction.SignalsOf(name)) > 0 }

// An offer is one thing that a plugin can do for a signal.
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

func (o offer) String() string { return o.verb() + " " + string(o.signal) }

func (o offer) verb() string { return o.capability.String() }

func offerNames(p *eviction.Plugin) []string {
	var names []string
	for _, o := range offers(p) {
		names = append(names, o.String())
	}
	return names
}

// A claim is a plugin that was admitted and what it came with.
type claim struct {
	name   string
	plugin *eviction.Plugin
}

// conflict returns why a and b cannot both serve, nil if they can: what is assigned
// is not fought for. The mutex is held.
func (s *Supervisor) conflict(a, b claim) error {
	return conflict(a, b, func(o offer) bool { return s.assigned(o) != "" })
}

// conflict returns why a and b cannot both serve, nil if they can. Both are
// named. Offers that are settled may be the same.
func conflict(a, b claim, settled func(offer) bool) error {
	if a.name > b.name {
		a, b = b, a
	}
	var errs []error
	if builtin(a.name) == builtin(b.name) {
		theirs := offers(b.plugin)
		for _, o := range offers(a.plugin) {
			if slices.Contains(theirs, o) && !settled(o) {
				errs = append(errs, fmt.Errorf("plugins %q and %q both offer %s, want one of them: remove or disable the other, or assign[%q].%s to one",
					a.name, b.name, o, o.signal, o.verb()))
			}
		}
		if a.plugin.OwnsLayout && b.plugin.OwnsLayout && !settled(layoutOffer) {
			errs = append(errs, fmt.Errorf("plugins %q and %q both own the filesystem layout, want one of them: remove or disable the other, or assign[%q].%s to one",
				a.name, b.name, layoutOffer.signal, layoutOffer.verb()))
		}
	}
	for _, s := range a.plugin.Signals {
		for _, t := range b.plugin.Signals {
			if s.Signal == t.Signal && s.Definition != nil && t.Definition != nil && *s.Definition != *t.Definition {
				errs = append(errs, fmt.Errorf("plugins %q and %q define %s differently, want the same unit, format, resource and condition", a.name, b.name, s.Signal))
			}
		}
	}
	return errors.Join(errs...)
}

// layoutOffer is what the layout of the filesystems comes with if it is assigned.
var layoutOffer = offer{eviction.NodeFsAvailable, eviction.CanObserve}

// A roster is the running plugins and who serves what. It never changes.
type roster struct {
	instances []*Instance
	providers map[offer][]*Instance
	// assigned are those that the configuration has in charge, of providers.
	assigned map[offer]string
	// slow are those on standby.
	slow map[*Instance]bool
	// layouts are those that report the layout of the filesystems.
	layouts []*Instance
}

// newRoster assigns: who is assigned first, then custom before built-in, then by
// name. Who is slow is asked last for what the host waits for.
func newRoster(instances []*Instance, assigned func(offer) string, slow func(*Instance) bool) *roster {
	slices.SortFunc(instances, byPrecedence)
	r := &roster{instances: instances, providers: map[offer][]*Instance{}, assigned: map[offer]string{}, slow: map[*Instance]bool{}}
	for _, i := range instances {
		r.slow[i] = slow(i)
		for _, o := range offers(i.Plugin) {
			r.providers[o] = append(r.providers[o], i)
		}
		if i.Plugin.OwnsLayout {
			r.layouts = append(r.layouts, i)
		}
	}
	for o, who := range r.providers {
		name := assigned(o)
		first(who, name)
		if waitedFor(o.capability) {
			slices.SortStableFunc(who, r.promptFirst)
		}
		if who[0].Name == name {
			r.assigned[o] = name
		}
	}
	if len(r.layouts) > 1 {
		first(r.layouts, assigned(layoutOffer))
		slices.SortStableFunc(r.layouts, r.promptFirst)
	}
	return r
}

// promptFirst has plugins on standby after all others.
func (r *roster) promptFirst(a, b *Instance) int {
	switch {
	case r.slow[a] == r.slow[b]:
		return 0
	case r.slow[b]:
		return -1
	default:
		return 1
	}
}

// byPrecedence has custom plugins before built-in ones, and those by name.
func byPrecedence(a, b *Instance) int {
	if x, y := builtin(a.Name), builtin(b.Name); x != y {
		if y {
			return -1
		}
		return 1
	}
	return cmp.Compare(a.Name, b.Name)
}

// first moves the instance of that name to the front, if there is one.
func first(who []*Instance, name string) {
	n := slices.IndexFunc(who, func(i *Instance) bool { return i.Name == name })
	if n > 0 {
		i := who[n]
		copy(who[1:n+1], who[:n])
		who[0] = i
	}
}
