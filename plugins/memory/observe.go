package memory

import (
	"context"
	"errors"
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
	reply := eviction.ObserveReply{Observations: make([]eviction.Observation, 0, len(req.Signals))}
	for _, s := range req.Signals {
		if gauge := n.gauge(s); gauge != nil {
			reply.Observations = append(reply.Observations, observe(s, gauge, b))
		}
	}
	n.pods.Probe(probesPerPass, b)
	return reply, nil
}

func observe(s eviction.Signal, gauge *nodefs.MemoryGauge, b *nodefs.Buffer) eviction.Observation {
	o := eviction.Observation{Signal: s, Time: time.Now(), BootNanos: nodefs.BootNanos()}
	m, err := gauge.Read(b)
	switch {
	case err == nil && m.Limited:
		o.State = eviction.Observed
		o.Available = m.AvailableBytes
		o.Capacity = m.CapacityBytes
		o.Components = []eviction.Component{
			{Name: "limit", Value: m.CapacityBytes},
			{Name: "usage", Value: m.UsageBytes},
			{Name: "inactive_file", Value: m.InactiveFileBytes},
			{Name: "working_set", Value: m.WorkingSetBytes()},
		}
	case err == nil:
		o.State = eviction.Absent // no limit: the kubelet has no figure then
	case errors.Is(err, nodefs.ErrGone) && s == eviction.AllocatableMemoryAvailable:
		o.State = eviction.Absent // no cgroup of pods, or not any more
	default:
		o.Err = err.Error()
	}
	return o
}
