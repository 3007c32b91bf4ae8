package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func encodeObserveRequest(r eviction.ObserveRequest) *pluginv1.ObserveRequest {
	return &pluginv1.ObserveRequest{Pass: r.Pass, View: views.encode(r.View), Signals: encodeNames(r.Signals)}
}

func decodeObserveRequest(w *pluginv1.ObserveRequest) eviction.ObserveRequest {
	return eviction.ObserveRequest{
		PassView: eviction.PassView{Pass: w.GetPass(), View: views.decode(w.GetView(), eviction.ViewBefore)},
		Signals:  decodeNames[eviction.Signal](w.GetSignals()),
	}
}

func encodeObserveReply(r eviction.ObserveReply) *pluginv1.ObserveResponse {
	w := &pluginv1.ObserveResponse{Observations: encodeRows(r.Observations, encodeObservation)}
	if l := r.Layout; l != nil {
		w.Layout = &pluginv1.LayoutReport{
			ImageFs:          l.ImageFs,
			ContainerFs:      l.ContainerFs,
			ImageFsError:     text(l.ImageFsErr),
			ContainerFsError: text(l.ContainerFsErr),
		}
	}
	return w
}

func decodeObserveReply(w *pluginv1.ObserveResponse) eviction.ObserveReply {
	r := eviction.ObserveReply{Observations: decodeRows(w.GetObservations(), decodeObservation)}
	if l := w.GetLayout(); l != nil {
		r.Layout = &eviction.LayoutReport{
			ImageFs:        l.GetImageFs(),
			ContainerFs:    l.GetContainerFs(),
			ImageFsErr:     l.GetImageFsError(),
			ContainerFsErr: l.GetContainerFsError(),
		}
	}
	return r
}

func encodeObservation(w *pluginv1.Observation, o *eviction.Observation) {
	w.Signal = text(string(o.Signal))
	w.State = observationStates.encode(o.State)
	w.Available = o.Available
	w.Capacity = o.Capacity
	w.TimeUnixNanos = encodeTime(o.Time)
	w.BootNanos = o.BootNanos
	w.Freeing = o.Freeing
	w.Components = encodeRows(o.Components, func(w *pluginv1.Component, c *eviction.Component) {
		w.Name, w.Value = text(c.Name), c.Value
	})
	w.Error = text(o.Err)
}

func decodeObservation(o *eviction.Observation, w *pluginv1.Observation) {
	*o = eviction.Observation{
		Signal:    eviction.Signal(w.GetSignal()),
		State:     observationStates.decode(w.GetState(), eviction.Unknown),
		Available: w.GetAvailable(),
		Capacity:  w.GetCapacity(),
		Time:      decodeTime(w.GetTimeUnixNanos()),
		BootNanos: w.GetBootNanos(),
		Freeing:   w.GetFreeing(),
		Components: decodeRows(w.GetComponents(), func(c *eviction.Component, w *pluginv1.Component) {
			c.Name, c.Value = w.GetName(), w.GetValue()
		}),
		Err: w.GetError(),
	}
}
