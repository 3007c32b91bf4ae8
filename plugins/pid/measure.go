package pid

import (
	"context"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/figures"
	"github.com/evictd/evictd/shared/nodefs"
)

// Measure implements eviction.Measurer. It has no figures of containers, since the
// kubelet's messages about PIDs name none.
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
	b, release := nodefs.BorrowBuffer()
	defer release()
	var usages []eviction.SignalUsage // one allocation for all pods
	if slices.Contains(req.Signals, eviction.PIDAvailable) {
		usages = make([]eviction.SignalUsage, 0, len(req.Pods))
	}
	for i := range req.Pods {
		if err := ctx.Err(); err != nil {
			return err // answers emitted before count
		}
		m := figures.PodTasks(n.pods, &req.Pods[i], b)
		if m.State == eviction.Measured && usages != nil {
			usages = append(usages, eviction.SignalUsage{Signal: eviction.PIDAvailable, Value: m.Processes.Value})
			m.Usage = usages[len(usages)-1 : len(usages) : len(usages)]
		}
		emit(m)
	}
	return nil
}
