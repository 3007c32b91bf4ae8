package disk

import (
	"context"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// New returns the disk plugin.
func New(options ...Option) sdk.Plugin {
	p := &plugin{signals: signals()}
	for _, o := range options {
		o(p)
	}
	return sdk.Plugin{
		Name:       "disk",
		Version:    "1",
		Signals:    p.signals,
		OwnsLayout: true,
		Configurer: sdk.ConfigureChecked(validate, p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     sdk.RankAsKubelet(),
		Reclaimer:  p,
	}
}

// plugin is shared by the capabilities. Each call uses the node as configured when the call
// begins until it ends.
type plugin struct {
	current sdk.Current[*node]

	// The changes that options have made.
	signals   []eviction.SignalSpec
	observers []observer
	steps     []Step
}

// configure applies another configuration. It keeps the node while the host's facts and the
// walk limits are the same: a change of settings must not lose what is known of the images,
// such as when each was last used.
func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	c.DryRun, facts.DryRun = facts.DryRun, false // a change of it does not change the node
	if old, err := p.current.Hold(); err == nil {
		defer old.Release()
		if n := old.Value; facts.SummarySocket == "" && n.facts == facts && n.config.Walk == c.Walk {
			n.collector.Apply(c.Settings)
			return nil
		}
	}
	next := &node{facts: facts, config: c}
	if facts.SummarySocket != "" {
		next.summary = &summary.Source{Socket: facts.SummarySocket}
	} else if err := next.open(); err != nil {
		return err
	}
	p.current.Set(next, next.close)
	return nil
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	h, err := p.current.Hold()
	if err != nil {
		return err
	}
	defer h.Release()
	n := h.Value
	if n.summary != nil {
		return n.summary.Measure(ctx, req, emit)
	}
	return n.meter.Measure(ctx, req, emit)
}
