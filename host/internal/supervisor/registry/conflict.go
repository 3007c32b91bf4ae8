package registry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// Conflict returns why a and b cannot both serve, nil if they can: assigned capabilities cannot
// conflict. The error names both.
func (r *Registry) Conflict(a, b *Instance) error {
	if r.isShadow(a.Name) || r.isShadow(b.Name) {
		return nil
	}
	if a.Name > b.Name {
		a, b = b, a
	}
	var errs []error
	both := func(what string, o offer) {
		errs = append(errs, fmt.Errorf("plugins %q and %q both %s, want one of them: remove or disable the other, or assign[%q].%s to one",
			a.Name, b.Name, what, o.signal, o.capability))
	}
	if Builtin(a.Name) == Builtin(b.Name) {
		theirs := offers(b.Plugin)
		for _, o := range offers(a.Plugin) {
			if slices.Contains(theirs, o) && r.assignee(o) == "" {
				both("offer "+o.String(), o)
			}
		}
		if a.Plugin.OwnsLayout && b.Plugin.OwnsLayout && r.assignee(layoutOffer) == "" {
			both("own the filesystem layout", layoutOffer)
		}
	}
	for _, s := range a.Plugin.Signals {
		for _, t := range b.Plugin.Signals {
			if s.Signal == t.Signal && s.Definition != nil && t.Definition != nil && *s.Definition != *t.Definition {
				errs = append(errs, fmt.Errorf("plugins %q and %q define %s differently, want the same unit, format, resource and condition", a.Name, b.Name, s.Signal))
			}
		}
	}
	return errors.Join(errs...)
}

func (r *Registry) isShadow(name string) bool {
	return slices.ContainsFunc(r.plugins, func(p Plugin) bool { return p.Name == name && p.Shadow })
}

// SameOffers reports whether two plugins have the same offers.
func SameOffers(a, b *eviction.Plugin) bool { return slices.Equal(offers(a), offers(b)) }

// Conflicting returns the instances, with the reason, that only a former assignment allowed to
// serve together and that conflict now: the plugin that was in charge stays.
func (r *Registry) Conflicting(former *Registry) map[*Instance]error {
	losers := map[*Instance]error{}
	for n, a := range r.instances {
		for _, b := range r.instances[n+1:] {
			if losers[a] != nil || losers[b] != nil {
				continue
			}
			err := r.Conflict(a, b)
			switch {
			case err == nil:
			case former.before(b, a) && !former.before(a, b):
				losers[a] = err
			default:
				losers[b] = err
			}
		}
	}
	return losers
}

// before reports whether a is in charge of something that b offers too.
func (r *Registry) before(a, b *Instance) bool {
	return slices.ContainsFunc(offers(b.Plugin), func(o offer) bool {
		who := r.providers[o]
		return len(who) > 0 && who[0] == a
	})
}
