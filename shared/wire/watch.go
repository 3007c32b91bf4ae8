package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeWatchRequest(r eviction.WatchRequest) *pluginv1.WatchRequest {
	return &pluginv1.WatchRequest{
		Thresholds: encodeRows(r.Thresholds, func(w *pluginv1.WatchThreshold, t *eviction.WatchThreshold) {
			w.Signal, w.Threshold = text(string(t.Signal)), encodeThreshold(t.Threshold)
		}),
	}
}

func decodeWatchRequest(w *pluginv1.WatchRequest) eviction.WatchRequest {
	return eviction.WatchRequest{
		Thresholds: decodeRows(w.GetThresholds(), func(t *eviction.WatchThreshold, w *pluginv1.WatchThreshold) {
			t.Signal, t.Threshold = eviction.Signal(w.GetSignal()), decodeThreshold(w.GetThreshold())
		}),
	}
}

func encodeThreshold(t eviction.Threshold) *pluginv1.Threshold {
	if t.Fraction != 0 {
		return &pluginv1.Threshold{Value: &pluginv1.Threshold_Fraction{Fraction: t.Fraction}}
	}
	return &pluginv1.Threshold{Value: &pluginv1.Threshold_Amount{Amount: t.Amount}}
}

func decodeThreshold(w *pluginv1.Threshold) eviction.Threshold {
	return eviction.Threshold{Amount: w.GetAmount(), Fraction: w.GetFraction()}
}

func encodeWake(wake eviction.Wake) *pluginv1.WatchResponse {
	return &pluginv1.WatchResponse{Signal: text(string(wake.Signal)), Cause: clip(text(wake.Cause))}
}

func decodeWake(w *pluginv1.WatchResponse) eviction.Wake {
	return eviction.Wake{Signal: eviction.Signal(w.GetSignal()), Cause: w.GetCause()}
}
