package adapter

import (
	"time"

	"k8s.io/kubernetes/pkg/kubelet/metrics"

	"github.com/evictd/evictd/shared/eviction"
)

// counts updates the kubelet's own metrics.
type counts struct{}

// Evicted implements host.Metrics.
func (counts) Evicted(s eviction.Signal) { metrics.Evictions.WithLabelValues(string(s)).Inc() }

// StatsAge implements host.Metrics.
func (counts) StatsAge(s eviction.Signal, age time.Duration) {
	metrics.EvictionStatsAge.WithLabelValues(string(s)).Observe(age.Seconds())
}

// Preempted implements host.Metrics.
func (counts) Preempted(resource string) { metrics.Preemptions.WithLabelValues(resource).Inc() }
