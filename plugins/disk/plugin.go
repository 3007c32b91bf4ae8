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

// plugin is shared by the capabilities. Each call takes the node as configured when it begins
// and stays with it.
type plugin struct {
	current sdk.Current[*node]

	// What options have made of it.
	signals   []eviction.SignalSpec
	observers []observer
	steps     []Step
}

// configure turns to another configuration. The node that it describes is kept as
// long as the host's facts of it are the same: what is known of its images, and
// for how long, must not be forgotten for a setting.
func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, c config) error {
	c.DryRun, facts.DryRun = facts.DryRun, false // it may change without the node
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
