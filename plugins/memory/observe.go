package memory

import (
	"context"

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
	b, release := nodefs.BorrowBuffer()
	defer release()
	if n.summary != nil {
		reply, err := n.summary.Observe(ctx, req)
		if n.subtract {
			for i := range reply.Observations {
				n.subtractHugePages(&reply.Observations[i], b)
			}
		}
		return reply, err
	}
	reply := eviction.ObserveReply{Observations: make([]eviction.Observation, 0, len(req.Signals))}
	for _, s := range req.Signals {
		if gauge := n.gauge(s); gauge != nil {
			o := figures.At(s)
			m, err := gauge.Read(b)
			reply.Observations = append(reply.Observations, figures.Memory(o, m, err))
		}
	}
	n.pods.Probe(nodefs.ProbesPerPass, b)
	return reply, nil
}
