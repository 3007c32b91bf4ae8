package conformance

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/evictd/evictd/shared/eviction"
)

func metricsFaults() map[string]valueFault {
	answer := func(metrics func(context.Context) ([]eviction.Metric, error)) func(*sound, *eviction.Plugin) {
		return func(s *sound, _ *eviction.Plugin) { s.metrics = metrics }
	}
	gauge := func(value float64, is eviction.MetricType) []eviction.Metric {
		return []eviction.Metric{{Name: "x", Type: is, Samples: []eviction.Sample{{Value: value}}}}
	}
	var falling atomic.Int64
	return map[string]valueFault{
		"hangs in metrics": {answer(func(ctx context.Context) ([]eviction.Metric, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}), "no answer within 200ms", []string{"metrics", "empty-messages", "garbage-metrics"}},
		"has 10,000 series": {answer(func(context.Context) ([]eviction.Metric, error) {
			all := gauge(1, eviction.Gauge)
			for i := range 10_000 {
				all[0].Samples = append(all[0].Samples, eviction.Sample{Labels: map[string]string{"n": fmt.Sprint(i)}})
			}
			return all, nil
		}), "invalid reply", []string{"metrics"}},
		"labels a plugin": {answer(func(context.Context) ([]eviction.Metric, error) {
			all := gauge(1, eviction.Gauge)
			all[0].Samples[0].Labels = map[string]string{"plugin": "memory"}
			return all, nil
		}), `not "plugin"`, []string{"metrics"}},
		"counts down": {answer(func(context.Context) ([]eviction.Metric, error) {
			return gauge(float64(-falling.Add(1)), eviction.Counter), nil
		}), "then -", []string{"metrics-counters"}},
	}
}
