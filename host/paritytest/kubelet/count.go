package kubelet

import (
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics"
	kubeletmetrics "k8s.io/kubernetes/pkg/kubelet/metrics"
)

// labels lists all possible labels of kubelet_evictions.
var labels = []string{
	"memory.available", "allocatableMemory.available", "pid.available",
	"nodefs.available", "nodefs.inodesFree", "imagefs.available", "imagefs.inodesFree",
	"containerfs.available", "containerfs.inodesFree",
	"emptydirfs.limit", "ephemeralpodfs.limit", "ephemeralcontainerfs.limit",
}

// A counter reads kubelet_evictions, the only place where the kubelet reports which threshold it
// acted on. The metric belongs to the whole process: only one pass may run at a time.
type counter struct{ seen map[string]float64 }

// newCounter registers the metric, which does not count before.
func newCounter() (*counter, error) {
	registry := metrics.NewKubeRegistry()
	if err := registry.Register(kubeletmetrics.Evictions); err != nil {
		return nil, err
	}
	c := &counter{seen: map[string]float64{}}
	c.grown()
	return c, nil
}

// grown returns the label that was counted since the last call, "" for none.
func (c *counter) grown() string {
	var label string
	for _, l := range labels {
		if v := value(kubeletmetrics.Evictions.WithLabelValues(l)); v > c.seen[l] {
			label, c.seen[l] = l, v
		}
	}
	return label
}

func value(m metrics.CounterMetric) float64 {
	writer, ok := m.(metrics.Metric)
	if !ok {
		return 0
	}
	var out dto.Metric
	if writer.Write(&out) != nil {
		return 0
	}
	return out.GetCounter().GetValue()
}
