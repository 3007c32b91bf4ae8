package disk

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/shared/eviction"
)

var errNotConfigured = errors.New("not configured yet: Configure comes first")

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
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     sdk.RankAsKubelet(),
		Reclaimer:  p,
	}
}

// plugin is what the capabilities share. Each call takes the node as configured
// when it begins and stays with it.
type plugin struct {
	current atomic.Pointer[node]

	// What options have made of it.
	signals   []eviction.SignalSpec
	observers []observer
	steps     []Step
}

// take returns the node in force. release it when the call has ended.
func (p *plugin) take() (n *node, release func(), err error) {
	for {
		n := p.current.Load()
		if n == nil {
			return nil, nil, errNotConfigured
		}
		if n.hold() {
			return n, n.release, nil
		}
		// Another configuration has just taken over.
	}
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	n, release, err := p.take()
	if err != nil {
		return err
	}
	defer release()
	if n.summary != nil {
		return n.summary.Measure(ctx, req, emit)
	}
	return n.meter.Measure(ctx, req, emit)
}
