package observe

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/registry"
	"github.com/evictd/evictd/host/internal/ground/printable"
	"github.com/evictd/evictd/shared/eviction"
)

// A search finds the figure of one signal: it asks one provider after the other, at last the host.
type search struct {
	signal     eviction.Signal
	fromKernel bool
	// attempts lists the providers to ask together in each attempt, until there is a figure.
	attempts [][]registry.Provider
	// compared: the built-in plugin, or else the host, is asked beside the custom plugin in charge.
	// claims are their figures, the one that counts first.
	compared bool
	claims   []policy.Claim
	// figure counts. Its signal is empty while there is none.
	figure policy.Claim
	// noSource: a plugin works and reports that its source has no figure.
	noSource bool
}

// A question is one call of Observe of one plugin.
type question struct {
	plugin *registry.Instance
	// searches may share a name, because several signals may be one filesystem.
	searches []named
	// layout: the reply's layout of the filesystems counts.
	layout bool
}

// A named search has the name of its signal that a plugin knows.
type named struct {
	*search

	as eviction.Signal
}

// An answer has one observation of each signal of its question, in the same order.
type answer struct {
	question
	observations []eviction.Observation
	reported     *eviction.LayoutReport
	err          error
}

// observe asks the plugin in charge of each signal, all plugins in parallel, then the next one for
// signals that are still unknown, and at last the host. With layout it also asks for the layout of
// the filesystems.
func (o *Observer) observe(ctx context.Context, r Request, signals []eviction.Signal, layout bool) Seen {
	if o.Begin != nil {
		o.Begin(ctx, r.At, layout)
	}
	began := time.Now()
	var searches []*search
	for _, s := range signals {
		searches = append(searches, newSearch(r.Pin, o.Thresholds.Layout, s))
	}
	var owners []*registry.Instance
	if layout {
		owners = r.Pin.Layouts()
	}
	seen := Seen{Observations: make(map[eviction.Signal]eviction.Observation, len(signals)), Claims: map[eviction.Signal][]policy.Claim{}}
	seen.layout = o.askPlugins(ctx, r, searches, owners)
	o.fallBack(ctx, r, began, searches)
	for _, s := range searches {
		if s.figure.Signal != "" {
			seen.Observations[s.signal] = s.figure.Observation
		}
		if s.figure.By != "" {
			o.of(s.signal).by = s.figure.By
		}
		if s.compared {
			seen.Claims[s.signal] = s.claims
		}
	}
	return seen
}

// askPlugins makes one attempt after the other, until each search has a figure or no plugin is left.
// It returns the layout, nil if none of its owners reports it.
func (o *Observer) askPlugins(ctx context.Context, r Request, searches []*search, owners []*registry.Instance) (layout *eviction.LayoutReport) {
	answered := map[*registry.Instance]error{}
	for n := 0; ; n++ {
		if n > 0 && o.Thresholds.Layout != 0 || layout != nil {
			owners = nil // stop asking once the layout is known
		}
		questions := questionsOf(n, searches, owners)
		if len(questions) == 0 {
			o.Responsiveness.observed(answered)
			return layout
		}
		for _, a := range o.ask(ctx, r, questions) {
			answered[a.plugin] = a.err
			if a.layout {
				layout = a.reported
			}
			o.receive(r, a)
		}
	}
}

// newSearch lines up the providers of a signal. For the kernel's figures the first attempt asks the
// built-in plugin together with a custom plugin in charge, unless the configuration assigns the
// latter. layout comes from former passes: an observer assigned to one of several signals of a
// filesystem observes all.
func newSearch(pin *registry.Pin, layout eviction.Layout, signal eviction.Signal) *search {
	line := pin.Serving(layout, signal, eviction.CanObserve)
	b, _ := eviction.Builtin(signal)
	s := &search{signal: signal, fromKernel: b.FromKernel}
	s.compared = b.FromKernel && len(line) > 0 && !line[0].Builtin() && pin.Assignee(signal, eviction.CanObserve) == ""
	beside := slices.IndexFunc(line, func(p registry.Provider) bool { return p.Builtin() })
	for n, p := range line {
		if s.compared && n == beside {
			s.attempts[0] = append(s.attempts[0], p)
		} else {
			s.attempts = append(s.attempts, []registry.Provider{p})
		}
	}
	return s
}

// questionsOf returns the calls of attempt n, none if no plugin is left to ask.
func questionsOf(n int, searches []*search, owners []*registry.Instance) (all []question) {
	to := func(p *registry.Instance) *question {
		i := slices.IndexFunc(all, func(q question) bool { return q.plugin == p })
		if i < 0 {
			i, all = len(all), append(all, question{plugin: p})
		}
		return &all[i]
	}
	for _, s := range searches {
		if n >= len(s.attempts) || s.figure.State != eviction.Unknown {
			continue
		}
		for _, p := range s.attempts[n] {
			q := to(p.Instance)
			q.searches = append(q.searches, named{s, p.As})
		}
	}
	if n < len(owners) {
		to(owners[n]).layout = true // even without a signal
	}
	return all
}

// ask calls several plugins at once.
func (o *Observer) ask(ctx context.Context, r Request, questions []question) []answer {
	var wg sync.WaitGroup
	answers := make([]answer, len(questions))
	for i, q := range questions {
		if !slices.ContainsFunc(q.searches, func(s named) bool { return s.compared }) {
			r.Budget.forgive(q.plugin)
		}
		wg.Go(func() { answers[i] = o.call(ctx, r, q) })
	}
	wg.Wait()
	return answers
}

// call calls Observe. It returns the plugin's observation of each signal, or unknown with the
// reason.
func (o *Observer) call(ctx context.Context, r Request, q question) answer {
	var signals []eviction.Signal
	for _, s := range q.searches {
		if !slices.Contains(signals, s.as) {
			signals = append(signals, s.as)
		}
	}
	var reply eviction.ObserveReply
	p := q.plugin
	err := r.Budget.Call(ctx, p, func(ctx context.Context) (err error) {
		reply, err = p.Plugin.Observer.Observe(ctx, eviction.ObserveRequest{PassView: r.At, Signals: signals})
		return err
	})
	if err != nil {
		o.Metrics.CallFailed(p.Name, "observe", err)
		o.Log.Warn("observation failed", "plugin", p.Name, "signals", signals, "error", err)
	}
	out := make([]eviction.Observation, len(q.searches))
	for n, s := range q.searches {
		i := slices.IndexFunc(reply.Observations, func(o eviction.Observation) bool { return o.Signal == s.as })
		switch {
		case err != nil:
			out[n].Err = printable.ClipText(err.Error())
		case i < 0:
			out[n].Err = "left out of the plugin's reply"
		default:
			out[n] = o.rejectStale(o.rejectImpossible(p, reply.Observations[i]))
		}
		out[n].Signal = s.signal
	}
	return answer{q, out, reply.Layout, err}
}

// rejectImpossible marks an observation of more than the machine has as unknown. The built-in plugins
// check what they read of the machine themselves.
func (o *Observer) rejectImpossible(p *registry.Instance, of eviction.Observation) eviction.Observation {
	if o.Fallback == nil || of.State != eviction.Observed || p.Builtin() && (p.Name != registry.Summary || o.SourceStands == Forever) {
		return of
	}
	if err := o.Fallback.Whole(of.Signal).Check(of.Capacity); err != nil {
		return eviction.Observation{Signal: of.Signal, Err: fmt.Sprintf("%v: capacity %v", eviction.ErrInvalidReply, err)}
	}
	return of
}

// rejectStale marks an observation with an impossible sample time as unknown.
func (o *Observer) rejectStale(of eviction.Observation) eviction.Observation {
	if !o.CheckSampleTimes || of.State != eviction.Observed || of.Time.IsZero() {
		return of
	}
	if err := eviction.CheckSampleAge(o.Now().Sub(of.Time)); err != nil {
		return eviction.Observation{Signal: of.Signal, Err: err.Error()}
	}
	return of
}
