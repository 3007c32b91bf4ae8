package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func (e podEncoder) encodeRankRequest(r eviction.RankRequest) *pluginv1.RankRequest {
	// One array for all rows of a kind: at 500 candidates it is the allocations
	// that cost.
	pods := make([]pluginv1.Pod, len(r.Candidates))
	measurements := make([]pluginv1.Measurement, len(r.Candidates))
	candidates := make([]pluginv1.Candidate, len(r.Candidates))
	w := &pluginv1.RankRequest{
		Pass:       r.Pass,
		Signal:     text(string(r.Signal)),
		Unit:       text(string(r.Unit)),
		Threshold:  encodeThreshold(r.Threshold),
		Available:  r.Available,
		Capacity:   r.Capacity,
		Shortfall:  r.Shortfall,
		Hard:       r.Hard,
		Candidates: make([]*pluginv1.Candidate, len(r.Candidates)),
	}
	for i := range r.Candidates {
		e.encode(&pods[i], &r.Candidates[i].Pod)
		encodeMeasurement(&measurements[i], &r.Candidates[i].Measurement)
		measurements[i].Uid = ""
		candidates[i].Pod, candidates[i].Measurement = &pods[i], &measurements[i]
		w.Candidates[i] = &candidates[i]
	}
	return w
}

func decodeRankRequest(w *pluginv1.RankRequest) eviction.RankRequest {
	return eviction.RankRequest{
		Pass:      w.GetPass(),
		Signal:    eviction.Signal(w.GetSignal()),
		Unit:      eviction.Unit(w.GetUnit()),
		Threshold: decodeThreshold(w.GetThreshold()),
		Available: w.GetAvailable(),
		Capacity:  w.GetCapacity(),
		Shortfall: w.GetShortfall(),
		Hard:      w.GetHard(),
		Candidates: decodeRows(w.GetCandidates(), func(c *eviction.Candidate, w *pluginv1.Candidate) {
			decodePod(&c.Pod, w.GetPod())
			decodeMeasurement(&c.Measurement, w.GetMeasurement())
			c.Measurement.UID = c.Pod.UID
		}),
	}
}

func encodeRanking(r []eviction.Ranked) *pluginv1.RankResponse {
	return &pluginv1.RankResponse{
		Ranking: encodeRows(r, func(w *pluginv1.Ranked, r *eviction.Ranked) {
			w.Uid, w.Reason = text(r.UID), text(r.Reason)
		}),
	}
}

func decodeRanking(w *pluginv1.RankResponse) []eviction.Ranked {
	return decodeRows(w.GetRanking(), func(r *eviction.Ranked, w *pluginv1.Ranked) {
		r.UID, r.Reason = w.GetUid(), w.GetReason()
	})
}
