package adapter

import (
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"

	"github.com/evictd/evictd/host"
	"github.com/evictd/evictd/shared/eviction"
)

// thresholds converts a kubelet's parsed thresholds. It never returns nil: a kubelet without
// thresholds has none.
func thresholds(of []evictionapi.Threshold) []host.Threshold {
	all := make([]host.Threshold, len(of))
	for i, t := range of {
		all[i] = host.Threshold{Signal: eviction.Signal(t.Signal), Value: host.ThresholdValue(t.Value), GracePeriod: t.GracePeriod}
		if t.MinReclaim != nil {
			least := host.ThresholdValue(*t.MinReclaim)
			all[i].MinReclaim = &least
		}
	}
	return all
}
