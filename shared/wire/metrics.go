package wire

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeMetric(w *pluginv1.Metric, m *eviction.Metric) {
	w.Name, w.Help, w.Type, w.Samples = text(m.Name), text(m.Help), metricTypes.encode(m.Type), encodeRows(m.Samples, encodeSample)
}

func decodeMetric(m *eviction.Metric, w *pluginv1.Metric) {
	*m = eviction.Metric{Name: w.GetName(), Help: w.GetHelp(), Type: metricTypes.decode(w.GetType(), eviction.Gauge), Samples: decodeRows(w.GetSamples(), decodeSample)}
}

func encodeSample(w *pluginv1.Sample, s *eviction.Sample) {
	w.Value = s.Value
	for name, value := range s.Labels {
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		w.Labels[text(name)] = text(value)
	}
}

func decodeSample(s *eviction.Sample, w *pluginv1.Sample) {
	*s = eviction.Sample{Labels: w.GetLabels(), Value: w.GetValue()}
}

func (s *server) Metrics(ctx context.Context, w *pluginv1.MetricsRequest) (*pluginv1.MetricsResponse, error) {
	if s.plugin.Meter == nil {
		return s.UnimplementedPluginServiceServer.Metrics(ctx, w)
	}
	all, err := s.plugin.Meter.Metrics(ctx)
	if err != nil {
		return nil, refusal(ctx, err)
	}
	return &pluginv1.MetricsResponse{Metrics: encodeRows(all, encodeMetric)}, nil
}

// Metrics returns an error that wraps ErrInvalidReply for metrics that break a bound.
func (r *remote) Metrics(ctx context.Context) ([]eviction.Metric, error) {
	w := new(pluginv1.MetricsResponse)
	most := append(slices.Clip(options), grpc.MaxCallRecvMsgSize(eviction.MaxMetricsBytes)) // the last one counts
	if err := r.cc.Invoke(ctx, pluginv1.PluginService_Metrics_FullMethodName, &pluginv1.MetricsRequest{}, bounded{w, metricsBounds}, most...); err != nil {
		return nil, CallError(ctx, err)
	}
	all := decodeRows(w.GetMetrics(), decodeMetric)
	if err := eviction.ValidMetrics(all); err != nil {
		return nil, fmt.Errorf("%w: metrics: %w", eviction.ErrInvalidReply, err)
	}
	return all, nil
}
