package pid

import (
	"context"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// Observe implements eviction.Observer.
func (p *plugin) Observe(ctx context.Context, req eviction.ObserveRequest) (eviction.ObserveReply, error) {
	h, err := p.current.Hold()
	if err != nil {
		return eviction.ObserveReply{}, err
	}
	defer h.Release()
	n := h.Value
	if n.summary != nil {
		return n.summary.Observe(ctx, req)
	}
	b, release := nodefs.BorrowBuffer()
	defer release()
	var reply eviction.ObserveReply
	if slices.Contains(req.Signals, eviction.PIDAvailable) {
		o := figures.At(eviction.PIDAvailable)
		sample, err := n.gauge.Read(b)
		reply.Observations = []eviction.Observation{figures.PIDs(o, sample, err)}
	}
	n.pods.Probe(nodefs.ProbesPerPass, b)
	return reply, nil
}
