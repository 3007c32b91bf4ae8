package disk

import (
	"context"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
)

// New returns the disk plugin.
func New() sdk.Plugin {
	p := new(plugin)
	return sdk.Plugin{
		Name:       "disk",
		Version:    "1",
		Signals:    signals(),
		OwnsLayout: true,
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     sdk.RankAsKubelet(),
		Reclaimer:  p,
	}
}

// plugin is what the capabilities share.
type plugin struct {
	summary.Switch // measures as it is
}

// config is the plugin's own configuration: there is none, so that any field in
// it is an error.
type config struct{}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, _ config) error {
	return p.Configure(facts)
}

// Observe implements eviction.Observer. The layout is told even if there is no
// summary, since a pass begins with it.
func (p *plugin) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	source, err := p.Source()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	layout, err := source.Layout(ctx, req.Pass, req.View)
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	reply, err := source.Observe(ctx, req)
	if err != nil {
		reply = unknown(req.Signals, err)
	}
	reply.Layout = layout.Report
	return reply, nil
}

func unknown(signals []eviction.Signal, why error) eviction.ObserveReply {
	observations := make([]eviction.Observation, len(signals))
	for i, s := range signals {
		observations[i] = eviction.Observation{Signal: s, State: eviction.Unknown, Err: why.Error()}
	}
	return eviction.ObserveReply{Observations: observations}
}
