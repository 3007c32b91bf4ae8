package loop

import (
	"slices"

	"github.com/evictd/evictd/host/internal/policy"
	"github.com/evictd/evictd/host/internal/supervisor/registry"
	"github.com/evictd/evictd/shared/eviction"
)

// observed is what a view of the node has shown. A signal that is in none of it has
// no observer at all.
type observed struct {
	signals map[eviction.Signal]eviction.Observation
	// claims has all that was said of signals that several were asked about, the one that
	// counts first.
	claims map[eviction.Signal][]policy.Claim
	// layout is that of the filesystems, nil if its owner does not say.
	layout *eviction.LayoutReport
}

// An inquiry asks in turns about signals: who is in charge first, and whoever is next
// in line for signals that are still unknown. About what the kernel tells, the built-in plugin
// is asked together with a custom one that is in charge, unless the configuration names
// that one.
type inquiry struct {
	observed
	roster Roster
	asked  []eviction.Signal
	// layoutKnown is that of the filesystems as of former passes: several signals may be
	// one filesystem, and who is asked for one of its names is meant to tell of all.
	layoutKnown eviction.Layout
	meant       map[registry.Provider][]eviction.Signal
	state       policy.State
	inForce     []policy.Threshold
	// second is who is asked beside the custom observer that is in charge: nil if only
	// the host is left.
	second map[eviction.Signal]*registry.Instance
	// by is who said what counts, said that a signal cannot be known, by its source.
	by   map[eviction.Signal]string
	said map[eviction.Signal]bool
}

func (l *Loop) newInquiry(roster Roster, signals []eviction.Signal) *inquiry {
	q := &inquiry{
		observed: observed{signals: make(map[eviction.Signal]eviction.Observation, len(signals))},
		roster:   roster, asked: signals, layoutKnown: l.filesystems.layout, state: l.state, inForce: l.filesystems.inForce,
		by: make(map[eviction.Signal]string, len(signals)), said: map[eviction.Signal]bool{},
	}
	for _, s := range signals {
		ps := roster.Providers(s, eviction.CanObserve)
		if !policy.WantsSecondLook(s) || len(ps) == 0 || ps[0].Builtin() || roster.Assigned(s, eviction.CanObserve) {
			continue
		}
		if q.second == nil {
			q.second, q.claims = map[eviction.Signal]*registry.Instance{}, map[eviction.Signal][]policy.Claim{}
		}
		q.second[s] = nil
		if n := slices.IndexFunc(ps, (*registry.Instance).Builtin); n > 0 {
			q.second[s] = ps[n]
		}
	}
	return q
}

// turn is whom to ask for what in turn n, counted from 0.
func (q *inquiry) turn(n int) map[*registry.Instance][]eviction.Signal {
	asks := map[*registry.Instance][]eviction.Signal{}
	q.meant = map[registry.Provider][]eviction.Signal{}
	for _, s := range q.asked {
		if o, ok := q.signals[s]; ok && o.State != eviction.Unknown {
			continue
		}
		ps := q.roster.Serving(q.layoutKnown, s, eviction.CanObserve)
		if second := q.second[s]; second != nil {
			ps = slices.DeleteFunc(slices.Clone(ps), func(p registry.Provider) bool { return p.Instance == second })
			if n == 0 {
				q.ask(asks, registry.Provider{Instance: second, As: s}, s)
			}
		}
		if n < len(ps) {
			q.ask(asks, ps[n], s)
		}
	}
	return asks
}

func (q *inquiry) ask(asks map[*registry.Instance][]eviction.Signal, p registry.Provider, s eviction.Signal) {
	if len(q.meant[p]) == 0 {
		asks[p.Instance] = append(asks[p.Instance], p.As)
	}
	q.meant[p] = append(q.meant[p], s)
}

// take takes what one plugin has answered.
func (q *inquiry) take(a answer) {
	for _, o := range a.observations {
		says := a.says(o)
		for _, s := range q.meant[registry.Provider{Instance: a.by, As: o.Signal}] {
			o.Signal = s
			if _, ok := q.second[s]; ok {
				q.add(policy.Claim{Observation: o, By: a.by.Name, Custom: !a.by.Builtin()})
				if !a.by.Builtin() {
					continue // the built-in one's word is what its source says
				}
			} else {
				q.signals[s], q.by[s] = o, a.by.Name
			}
			q.said[s] = says
		}
	}
}

// add takes one of several figures of a signal.
func (q *inquiry) add(f policy.Claim) {
	figures := append(q.claims[f.Signal], f)
	slices.SortStableFunc(figures, func(a, b policy.Claim) int { return trust(a) - trust(b) })
	q.state.Count(q.inForce, figures)
	q.claims[f.Signal], q.signals[f.Signal], q.by[f.Signal] = figures, figures[0].Observation, figures[0].By
}

// trust is greater for an observer that is believed more.
func trust(f policy.Claim) int {
	switch {
	case f.Custom:
		return 0
	case f.By != hostItself:
		return 1
	default:
		return 2
	}
}

// unconfirmed are the signals that a custom plugin alone has observed, or says that
// there is no such figure.
func (q *inquiry) unconfirmed() []eviction.Signal {
	var alone []eviction.Signal
	for _, s := range q.asked {
		figures := q.claims[s]
		known := func(custom bool) bool {
			return slices.ContainsFunc(figures, func(f policy.Claim) bool { return f.Custom == custom && f.State != eviction.Unknown })
		}
		if known(true) && !known(false) {
			alone = append(alone, s)
		}
	}
	return alone
}
