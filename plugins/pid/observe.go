package pid

import (
	"context"
	"slices"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
)

// probesPerPass is how many pods' descriptors an observation checks, so that
// those of pods that are never measured again are closed in time. The number is
// fixed: an observation costs the same whatever the number of pods.
const probesPerPass = 16

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
		reply.Observations = []eviction.Observation{n.observe(b)}
	}
	n.pods.Probe(probesPerPass, b)
	return reply, nil
}

func (n *node) observe(b *nodefs.Buffer) eviction.Observation {
	o := eviction.Observation{Signal: eviction.PIDAvailable, Time: time.Now(), BootNanos: nodefs.BootNanos()}
	s, err := n.gauge.Read(b)
	if err != nil {
		o.Err = err.Error()
		return o
	}
	o.State = eviction.Observed
	o.Available = s.Available()
	o.Capacity = s.Max()
	o.Components = []eviction.Component{
		{Name: "pid_max", Value: s.PIDMax},
		{Name: "threads_max", Value: s.ThreadsMax},
		{Name: "running", Value: s.Running},
	}
	return o
}
