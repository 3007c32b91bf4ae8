package pid

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/evictd/evictd/sdk"
	"github.com/evictd/evictd/sdk/summary"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/eviction/rank"
)

var (
	errNotConfigured = errors.New("not configured yet: Configure comes first")
	errNoNative      = errors.New("needs source: summary; the native source is not in this version")
)

// New returns the pid plugin.
func New() sdk.Plugin {
	p := new(plugin)
	return sdk.Plugin{
		Name:       "pid",
		Version:    "1",
		Signals:    sdk.Signals(eviction.PIDAvailable),
		Configurer: sdk.Configure(p.configure),
		Observer:   p,
		Measurer:   p,
		Ranker:     sdk.RankBy(rank.PID()),
	}
}

// plugin is what the capabilities share. Each call takes the source as configured
// when it begins and stays with it.
type plugin struct {
	current atomic.Pointer[summary.Source]
}

// config is the plugin's own configuration: there is none, so that any field in
// it is an error.
type config struct{}

func (p *plugin) configure(_ context.Context, facts eviction.NodeFacts, _ config) error {
	old := p.current.Load()
	if old != nil && old.Socket == facts.SummarySocket {
		return nil // with its connections and what it has fetched
	}
	if old = p.current.Swap(&summary.Source{Socket: facts.SummarySocket}); old != nil {
		old.Close()
	}
	return nil
}

func (p *plugin) source() (*summary.Source, error) {
	s := p.current.Load()
	switch {
	case s == nil:
		return nil, errNotConfigured
	case s.Socket == "":
		return nil, errNoNative
	default:
		return s, nil
	}
}

// Observe implements eviction.Observer.
func (p *plugin) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	source, err := p.source()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	req.Signals = own(req.Signals)
	return source.Observe(ctx, req)
}

// Measure implements eviction.Measurer.
func (p *plugin) Measure(ctx context.Context, req eviction.MeasureRequest, emit func(eviction.Measurement)) error {
	source, err := p.source()
	if err != nil {
		return err
	}
	req.Signals = own(req.Signals)
	return source.Measure(ctx, req, emit)
}

// own leaves out the signals of others, and does not change its input.
func own(asked []eviction.Signal) []eviction.Signal {
	return slices.DeleteFunc(slices.Clone(asked), func(s eviction.Signal) bool { return s != eviction.PIDAvailable })
}
