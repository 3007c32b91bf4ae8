package observe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// leftOut is the error of a signal that is missing in a plugin's reply.
const leftOut = "left out of the plugin's reply"

// observe asks the plugin in charge of each signal, all plugins in parallel, and then the next one
// for signals that are still unknown. With layout it also asks for the layout of the filesystems.
func (o *Observer) observe(ctx context.Context, r Request, signals []eviction.Signal, layout bool) Seen {
	if o.Begin != nil {
		o.Begin(ctx, r.At, layout)
	}
	began := time.Now()
	q := newInquiry(r, signals, o.Thresholds)
	if layout {
		q.owners = r.Pin.Layouts()
	}
	for asks := q.next(); len(asks) > 0; asks = q.next() {
		for p, of := range asks {
			if !slices.ContainsFunc(of, q.seconded) {
				r.Budget.forgive(p)
			}
		}
		for _, a := range o.ask(ctx, r, asks) {
			q.receive(a)
		}
	}
	o.Responsiveness.observed(q.answered)
	o.confirm(ctx, q)
	q.explain()
	for s, by := range q.by {
		o.of(s).by = by
	}
	if o.SourceStands == 0 {
		clear(q.said)
	}
	o.fallBack(ctx, began, signals, q.said, q.Observations)
	return q.Seen
}

// An answer holds the observations of one plugin.
type answer struct {
	by           *registry.Instance
	observations []eviction.Observation
	layout       *eviction.LayoutReport
	err          error
}

// says reports whether the plugin itself reports o as unknown: the plugin works, but its source
// does not.
func (a answer) says(o eviction.Observation) bool {
	return o.State == eviction.Unknown && (errors.Is(a.err, eviction.ErrRefused) ||
		a.err == nil && o.Err != leftOut && !strings.HasPrefix(o.Err, eviction.ErrInvalidReply.Error()))
}

// ask calls Observe of several plugins at once. The result has exactly one observation of every
// asked signal.
func (o *Observer) ask(ctx context.Context, r Request, asks map[*registry.Instance][]eviction.Signal) []answer {
	var (
		wg  sync.WaitGroup
		mu  sync.Mutex
		all []answer
	)
	for p, signals := range asks {
		wg.Go(func() {
			var reply eviction.ObserveReply
			err := r.Budget.Call(ctx, p, func(ctx context.Context) (err error) {
				reply, err = p.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: r.At, Signals: signals})
				return err
			})
			if err != nil {
				o.Metrics.CallFailed(p.Name, "observe", err)
				o.Log.Warn("observation failed", "plugin", p.Name, "signals", signals, "error", err)
			}
			a := answer{p, o.complete(signals, reply.Observations, err), reply.Layout, err}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		})
	}
	wg.Wait()
	return all
}

// complete returns one observation of each asked signal: the plugin's, or unknown with the reason.
func (o *Observer) complete(asked []eviction.Signal, replied []eviction.Observation, err error) []eviction.Observation {
	out := make([]eviction.Observation, 0, len(asked))
	for _, s := range asked {
		i := slices.IndexFunc(replied, func(o eviction.Observation) bool { return o.Signal == s })
		switch {
		case err != nil:
			out = append(out, eviction.Observation{Signal: s, Err: printable.ClipText(err.Error())})
		case i < 0:
			out = append(out, eviction.Observation{Signal: s, Err: leftOut})
		default:
			out = append(out, o.ofItsTime(replied[i]))
		}
	}
	return out
}

// ofItsTime marks an observation with an impossible sample time as unknown.
func (o *Observer) ofItsTime(of eviction.Observation) eviction.Observation {
	if !o.CheckSampleTimes || of.State != eviction.Observed || of.Time.IsZero() {
		return of
	}
	if err := eviction.CheckSampleAge(o.Now().Sub(of.Time)); err != nil {
		return eviction.Observation{Signal: of.Signal, Err: err.Error()}
	}
	return of
}

// An inquiry asks plugins about signals in several attempts: first the plugin in charge, then the
// next in line for signals that are still unknown. For the kernel's figures it asks the built-in
// plugin together with a custom one in charge, unless the configuration assigns the custom one.
type inquiry struct {
	Seen
	Request
	asked []eviction.Signal
	// thresholds has the layout of former passes: several signals may be one filesystem, and an
	// observer assigned to one of them observes all.
	thresholds *Thresholds
	attempts   int
	meant      map[registry.Provider][]eviction.Signal
	answered   map[*registry.Instance]error
	// owners of the layout, none if it is not asked for; owner is the one being asked.
	owners []*registry.Instance
	owner  *registry.Instance
	// second is the provider asked beside the custom observer in charge: nil if only the host is
	// left.
	second map[eviction.Signal]*registry.Instance
	// by names the source of the figure that counts; said marks signals that a source itself
	// reported as unknown.
	by   map[eviction.Signal]string
	said map[eviction.Signal]bool
}

func newInquiry(r Request, signals []eviction.Signal, t *Thresholds) *inquiry {
	q := &inquiry{
		Seen:    Seen{Observations: make(map[eviction.Signal]eviction.Observation, len(signals))},
		Request: r, asked: signals, thresholds: t,
		by: make(map[eviction.Signal]string, len(signals)), said: map[eviction.Signal]bool{},
		answered: map[*registry.Instance]error{},
	}
	for _, s := range signals {
		ps := r.Pin.Providers(s, eviction.CanObserve)
		if b, _ := eviction.Builtin(s); !b.FromKernel || len(ps) == 0 || ps[0].Builtin() || r.Pin.Assigned(s, eviction.CanObserve) {
			continue
		}
		if q.second == nil {
			q.second, q.Claims = map[eviction.Signal]*registry.Instance{}, map[eviction.Signal][]policy.Claim{}
		}
		q.second[s] = nil
		if n := slices.IndexFunc(ps, (*registry.Instance).Builtin); n > 0 {
			q.second[s] = ps[n]
		}
	}
	return q
}

// seconded reports whether another one is asked beside the custom observer of s.
func (q *inquiry) seconded(s eviction.Signal) bool {
	_, ok := q.second[s]
	return ok
}

// next returns the signals to ask each plugin for now, none if no plugin is left.
func (q *inquiry) next() map[*registry.Instance][]eviction.Signal {
	n := q.attempts
	q.attempts++
	asks := map[*registry.Instance][]eviction.Signal{}
	q.meant = map[registry.Provider][]eviction.Signal{}
	ask := func(p registry.Provider, s eviction.Signal) {
		if len(q.meant[p]) == 0 {
			asks[p.Instance] = append(asks[p.Instance], p.As)
		}
		q.meant[p] = append(q.meant[p], s)
	}
	for _, s := range q.asked {
		if o, ok := q.Observations[s]; ok && o.State != eviction.Unknown {
			continue
		}
		ps := q.Pin.Serving(q.thresholds.Layout, s, eviction.CanObserve)
		if second := q.second[s]; second != nil {
			ps = slices.DeleteFunc(slices.Clone(ps), func(p registry.Provider) bool { return p.Instance == second })
			if n == 0 {
				ask(registry.Provider{Instance: second, As: s}, s)
			}
		}
		if n < len(ps) {
			ask(ps[n], s)
		}
	}
	q.owner = nil
	if n < len(q.owners) && q.layout == nil && (n == 0 || q.thresholds.Layout == 0) { // stop asking once the layout is known
		q.owner = q.owners[n]
		asks[q.owner] = append(asks[q.owner], nil...) // even without a signal
	}
	return asks
}

// receive records the answer of one plugin.
func (q *inquiry) receive(a answer) {
	q.answered[a.by] = a.err
	if a.by == q.owner {
		q.layout = a.layout
	}
	for _, o := range a.observations {
		says := a.says(o)
		for _, s := range q.meant[registry.Provider{Instance: a.by, As: o.Signal}] {
			o.Signal = s
			if q.seconded(s) {
				q.claim(policy.Claim{Observation: o, By: a.by.Name, Custom: !a.by.Builtin()})
				if !a.by.Builtin() {
					continue // the built-in plugin reports what its source says
				}
			} else {
				q.Observations[s], q.by[s] = o, a.by.Name
			}
			q.said[s] = says
		}
	}
}

// explain adds the reason for signals that should have an observer and have none.
func (q *inquiry) explain() {
	for _, s := range q.asked {
		if _, ok := q.Observations[s]; ok {
			continue
		}
		if why := q.thresholds.missingObserver(q.Pin, s); why != nil {
			q.Observations[s] = eviction.Observation{Signal: s, Err: printable.ClipText(why.Error())}
		}
	}
}

// claim adds one of several figures of a signal.
func (q *inquiry) claim(f policy.Claim) {
	figures := append(q.Claims[f.Signal], f)
	slices.SortStableFunc(figures, func(a, b policy.Claim) int { return trust(a) - trust(b) })
	q.State.Count(q.thresholds.inForce, figures)
	q.Claims[f.Signal], q.Observations[f.Signal], q.by[f.Signal] = figures, figures[0].Observation, figures[0].By
}

// trust returns the order of preference of an observer, the smallest for the most trusted.
func trust(f policy.Claim) int {
	switch {
	case f.Custom:
		return 0
	case f.By != HostItself:
		return 1
	default:
		return 2
	}
}

// unconfirmed returns the signals that only a custom plugin has observed or has reported as
// unknown.
func (q *inquiry) unconfirmed() []eviction.Signal {
	return slices.DeleteFunc(slices.Clone(q.asked), func(s eviction.Signal) bool {
		known := func(custom bool) bool {
			return slices.ContainsFunc(q.Claims[s], func(f policy.Claim) bool { return f.Custom == custom && f.State != eviction.Unknown })
		}
		return !known(true) || known(false)
	})
}
