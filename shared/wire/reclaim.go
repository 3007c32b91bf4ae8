package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeReclaimRequest(r eviction.ReclaimRequest) *pluginv1.ReclaimRequest {
	return &pluginv1.ReclaimRequest{
		Pass:   r.Pass,
		Signal: text(string(r.Signal)),
		Step:   text(r.Step),
		Pods: encodeRows(r.Pods, func(w *pluginv1.PodPhase, p *eviction.PodPhase) {
			w.Uid, w.State = text(p.UID), podStates.encode(p.State)
		}),
		AllSourcesReady: r.AllSourcesReady,
		Shortfall:       r.Shortfall,
	}
}

func decodeReclaimRequest(w *pluginv1.ReclaimRequest) eviction.ReclaimRequest {
	return eviction.ReclaimRequest{
		Pass:   w.GetPass(),
		Signal: eviction.Signal(w.GetSignal()),
		Step:   w.GetStep(),
		Pods: decodeRows(w.GetPods(), func(p *eviction.PodPhase, w *pluginv1.PodPhase) {
			p.UID, p.State = w.GetUid(), podStates.decode(w.GetState(), eviction.PodActive)
		}),
		AllSourcesReady: w.GetAllSourcesReady(),
		Shortfall:       w.GetShortfall(),
	}
}

func encodeReclaimed(r eviction.Reclaimed) *pluginv1.ReclaimResponse {
	return &pluginv1.ReclaimResponse{Bytes: r.Bytes, Inodes: r.Inodes, Message: text(r.Message)}
}

func decodeReclaimed(w *pluginv1.ReclaimResponse) eviction.Reclaimed {
	return eviction.Reclaimed{Bytes: w.GetBytes(), Inodes: w.GetInodes(), Message: w.GetMessage()}
}
