package registry

import (
	"cmp"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
)

// A Provider is who does something for a signal.
type Provider struct {
	*Instance
	// As is the signal to ask it for: another name of the same filesystem if that is
	// what it offers.
	As eviction.Signal
}

// Serving returns who does c for sig where the filesystems are laid out as layout
// says: the one in charge first, its fallbacks after it. Several signals may be one
// filesystem then, and who offers c for any of them serves them all, so that one
// plugin is in charge.
func (r *Registry) Serving(layout eviction.Layout, sig eviction.Signal, c eviction.Capability) []Provider {
	return r.serving(layout, offer{sig, c})
}

func (r *Registry) serving(layout eviction.Layout, o offer) []Provider {
	all := Serving(layout, o.signal, o.capability, func(s eviction.Signal) ([]*Instance, string) {
		o := offer{s, o.capability}
		return r.providers[o], r.assigned[o]
	})
	if waitedFor(o.capability) {
		slices.SortStableFunc(all, func(a, b Provider) int { return r.promptFirst(a.Instance, b.Instance) })
	}
	return all
}

// Serving is Registry.Serving by what is said of each signal: who offers c for it, in
// order, and which of them it is assigned to. Of several assignments for one
// filesystem that of nodefs counts, else that of imagefs.
func Serving(layout eviction.Layout, sig eviction.Signal, c eviction.Capability, by func(eviction.Signal) (who []*Instance, assigned string)) []Provider {
	var all []Provider
	names, assigned := layout.ServedWith(sig, c), ""
	for _, name := range names {
		who, first := by(name)
		assigned = cmp.Or(assigned, first)
		for _, i := range who {
			n := slices.IndexFunc(all, func(p Provider) bool { return p.Instance == i })
			switch {
			case n < 0:
				all = append(all, Provider{i, name})
			case name == sig:
				all[n].As = name
			}
		}
	}
	if len(names) > 1 {
		slices.SortStableFunc(all, func(a, b Provider) int {
			switch {
			case a.Name == assigned:
				return -1
			case b.Name == assigned:
				return 1
			}
			return byPrecedence(a.Instance, b.Instance)
		})
	}
	return all
}
