package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

func (e podEncoder) encodeMeasureRequest(r eviction.MeasureRequest) *pluginv1.MeasureRequest {
	return &pluginv1.MeasureRequest{
		Pass:    r.Pass,
		View:    views.encode(r.View),
		Detail:  details.encode(r.Detail),
		Signals: encodeNames(r.Signals),
		Pods:    encodeRows(r.Pods, e.encode),
	}
}

func decodeMeasureRequest(w *pluginv1.MeasureRequest) eviction.MeasureRequest {
	return eviction.MeasureRequest{
		Pass:    w.GetPass(),
		View:    views.decode(w.GetView(), eviction.ViewBefore),
		Detail:  details.decode(w.GetDetail(), eviction.DetailPod),
		Signals: decodeNames[eviction.Signal](w.GetSignals()),
		Pods:    decodeRows(w.GetPods(), decodePod),
	}
}

// encodeMeasurement lets w point into m, so m must not change while w is used.
func encodeMeasurement(w *pluginv1.Measurement, m *eviction.Measurement) {
	w.Uid = text(m.UID)
	w.State = measurementStates.encode(m.State)
	w.Usage = encodeRows(m.Usage, func(w *pluginv1.SignalUsage, u *eviction.SignalUsage) {
		w.Signal, w.Value = text(string(u.Signal)), u.Value
	})
	w.WorkingSetBytes = encodeFigure(&m.WorkingSetBytes)
	w.Processes = encodeFigure(&m.Processes)
	w.EphemeralStorageUsedBytes = encodeFigure(&m.EphemeralStorageUsedBytes)
	w.TimeUnixNanos = encodeTime(m.Time)
	w.Containers = encodeRows(m.Containers, func(w *pluginv1.ContainerMeasurement, c *eviction.ContainerMeasurement) {
		w.Name = text(c.Name)
		w.WorkingSetBytes = encodeFigure(&c.WorkingSetBytes)
		w.RootfsUsedBytes = encodeFigure(&c.RootfsUsedBytes)
		w.RootfsInodesUsed = encodeFigure(&c.RootfsInodesUsed)
		w.LogsUsedBytes = encodeFigure(&c.LogsUsedBytes)
		w.LogsInodesUsed = encodeFigure(&c.LogsInodesUsed)
	})
	w.Volumes = encodeRows(m.Volumes, func(w *pluginv1.VolumeMeasurement, v *eviction.VolumeMeasurement) {
		w.Name = text(v.Name)
		w.UsedBytes = encodeFigure(&v.UsedBytes)
		w.InodesUsed = encodeFigure(&v.InodesUsed)
	})
	w.Error = text(m.Err)
}

func decodeMeasurement(m *eviction.Measurement, w *pluginv1.Measurement) {
	*m = eviction.Measurement{
		UID:   w.GetUid(),
		State: measurementStates.decode(w.GetState(), eviction.MeasurementUnknown),
		Usage: decodeRows(w.GetUsage(), func(u *eviction.SignalUsage, w *pluginv1.SignalUsage) {
			u.Signal, u.Value = eviction.Signal(w.GetSignal()), w.GetValue()
		}),
		Time:       decodeTime(w.GetTimeUnixNanos()),
		Containers: decodeRows(w.GetContainers(), decodeContainerMeasurement),
		Volumes:    decodeRows(w.GetVolumes(), decodeVolumeMeasurement),
		Err:        w.GetError(),
	}
	if w != nil {
		m.WorkingSetBytes = decodeFigure(w.WorkingSetBytes)
		m.Processes = decodeFigure(w.Processes)
		m.EphemeralStorageUsedBytes = decodeFigure(w.EphemeralStorageUsedBytes)
	}
}

func decodeContainerMeasurement(c *eviction.ContainerMeasurement, w *pluginv1.ContainerMeasurement) {
	*c = eviction.ContainerMeasurement{
		Name:             w.Name,
		WorkingSetBytes:  decodeFigure(w.WorkingSetBytes),
		RootfsUsedBytes:  decodeFigure(w.RootfsUsedBytes),
		RootfsInodesUsed: decodeFigure(w.RootfsInodesUsed),
		LogsUsedBytes:    decodeFigure(w.LogsUsedBytes),
		LogsInodesUsed:   decodeFigure(w.LogsInodesUsed),
	}
}

func decodeVolumeMeasurement(v *eviction.VolumeMeasurement, w *pluginv1.VolumeMeasurement) {
	*v = eviction.VolumeMeasurement{
		Name:       w.Name,
		UsedBytes:  decodeFigure(w.UsedBytes),
		InodesUsed: decodeFigure(w.InodesUsed),
	}
}

func encodeFigure(f *eviction.Figure) *int64 {
	if !f.OK {
		return nil
	}
	return &f.Value
}

func decodeFigure(v *int64) eviction.Figure {
	if v == nil {
		return eviction.Figure{}
	}
	return eviction.Some(*v)
}
