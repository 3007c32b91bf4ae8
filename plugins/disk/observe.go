package disk

import (
	"context"
	"fmt"
	"slices"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/hang"
	"github.com/evictd/evictd/shared/pace"
)

// An observer observes some signals instead of this plugin.
type observer struct {
	eviction.Observer
	signals []eviction.Signal
}

// Observe implements eviction.Observer. It reports the layout even if there are no figures,
// since a pass begins with it.
func (p *plugin) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	defer h.Release()
	var wait hang.Group
	others := make([][]eviction.Observation, len(p.observers))
	for i, o := range p.observers {
		wait.Go(func() { others[i] = o.observe(ctx, req) })
	}
	own := req
	own.Signals = slices.DeleteFunc(slices.Clone(req.Signals), p.isOthers)
	reply, err := observe(ctx, h, own)
	wait.Wait()
	if len(p.observers) == 0 {
		return reply, err
	}
	if err != nil { // only this plugin's signals are unknown, not those of observers
		reply.Observations = unknown(own.Signals, err)
	}
	reply.Observations = p.together(req.Signals, slices.Concat(others...), reply)
	return reply, nil
}

// The fastest rates at which a filesystem is expected to fill: of an NVMe disk.
const (
	bytesPerSecond  = 4e9
	inodesPerSecond = 100_000
)

// Watch implements eviction.Watcher: it looks at the filesystems, since the kernel does not notify. It
// ignores thresholds of other signals, and those of observers.
func (p *plugin) Watch(ctx context.Context, req eviction.WatchRequest, wake func(eviction.Wake)) error {
	rate := func(s eviction.Signal) float64 {
		b, _ := eviction.Builtin(s)
		switch {
		case b.Condition != eviction.DiskPressure || p.isOthers(s):
			return 0
		case b.Unit == eviction.UnitInodes:
			return inodesPerSecond
		default:
			return bytesPerSecond
		}
	}
	return p.current.Watch(ctx, func(ctx context.Context, n *node) {
		pace.Watch(ctx, req, rate, n.filesystems.Watcher(ctx), wake)
	})
}

// together adds the figures of observers to the plugin's own. If the threshold of a containerfs
// signal follows from that of an observer's signal, the containerfs signal gets that signal's
// figure.
func (p *plugin) together(asked []eviction.Signal, others []eviction.Observation, own eviction.ObserveReply) []eviction.Observation {
	layout := eviction.Layout(0)
	if own.Layout != nil {
		layout = own.Layout.Layout()
	}
	out := slices.Clone(own.Observations)
	for i := range out {
		from, ok := layout.ContainerFsFrom(out[i].Signal)
		n := slices.IndexFunc(others, func(o eviction.Observation) bool { return ok && o.Signal == from })
		if n >= 0 {
			s := out[i].Signal
			out[i] = others[n]
			out[i].Signal = s
		}
	}
	notAsked := func(o eviction.Observation) bool { return !slices.Contains(asked, o.Signal) }
	return append(slices.DeleteFunc(others, notAsked), out...)
}

// isOthers reports whether an observer observes a signal.
func (p *plugin) isOthers(s eviction.Signal) bool {
	return slices.ContainsFunc(p.observers, func(o observer) bool { return slices.Contains(o.signals, s) })
}

// observe calls the observer with those signals of req that are its own. It ignores a layout in
// the reply.
func (o observer) observe(ctx context.Context, req eviction.ObserveRequest) []eviction.Observation {
	mine := req
	mine.Signals = slices.DeleteFunc(withSources(req.Signals), func(s eviction.Signal) bool { return !slices.Contains(o.signals, s) })
	if len(mine.Signals) == 0 {
		return nil
	}
	reply, err := o.Observe(ctx, mine)
	if err != nil {
		return unknown(mine.Signals, err)
	}
	return slices.DeleteFunc(slices.Clone(reply.Observations), func(s eviction.Observation) bool { return !slices.Contains(mine.Signals, s.Signal) })
}

// withSources adds the signals from which a containerfs signal may get its figure, in any layout.
func withSources(signals []eviction.Signal) []eviction.Signal {
	all := slices.Clone(signals)
	for _, s := range signals {
		for _, layout := range eviction.Layouts() {
			if from, ok := layout.ContainerFsFrom(s); ok && !slices.Contains(all, from) {
				all = append(all, from)
			}
		}
	}
	return all
}

func observe(ctx context.Context, h *sdk.Held[*node], req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	n := h.Value
	detect(ctx, h)
	n.meter.Tidy()
	observations, layout, err := n.filesystems.Observe(ctx, req.Signals)
	if err != nil {
		return eviction.ObserveReply{}, fmt.Errorf("observe filesystems: %w", err)
	}
	return eviction.ObserveReply{Observations: observations, Layout: &layout}, nil
}

func unknown(signals []eviction.Signal, why error) []eviction.Observation {
	observations := make([]eviction.Observation, len(signals))
	for i, s := range signals {
		observations[i] = eviction.Observation{Signal: s, State: eviction.Unknown, Err: why.Error()}
	}
	return observations
}
