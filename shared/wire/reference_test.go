package wire

import (
	"maps"
	"slices"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// The messages that write themselves, by generated code: what they must be.

func referencePod(w *pluginv1.Pod, p *eviction.Pod) {
	w.Uid = text(p.UID)
	w.Namespace = text(p.Namespace)
	w.Name = text(p.Name)
	w.Labels = p.Labels
	w.Annotations = p.Annotations
	w.Priority = p.Priority
	w.QosClass = text(string(p.QoSClass))
	w.StartTimeUnixNanos = encodeTime(p.StartTime)
	w.OwnerKind = text(p.OwnerKind)
	w.MemoryRequestBytes = p.MemoryRequestBytes
	w.EphemeralStorageRequestBytes = p.EphemeralStorageRequestBytes
	w.Volumes = encodeRows(p.Volumes, func(w *pluginv1.Volume, v *eviction.Volume) {
		w.Name, w.Kind, w.Medium, w.CountsForRanking = text(v.Name), text(v.Kind), text(v.Medium), v.CountsForRanking
	})
	w.Containers = encodeRows(p.Containers, func(w *pluginv1.Container, c *eviction.Container) {
		w.Name, w.Id = text(c.Name), text(c.ID)
	})
	w.Running = p.Running
}

func referenceMeasureRequest(r eviction.MeasureRequest) *pluginv1.MeasureRequest {
	return &pluginv1.MeasureRequest{
		Pass:    r.Pass,
		View:    views.encode(r.View),
		Detail:  details.encode(r.Detail),
		Signals: encodeNames(r.Signals),
		Pods:    encodeRows(r.Pods, referencePod),
	}
}

func referenceMeasurement(w *pluginv1.Measurement, m *eviction.Measurement) {
	w.Uid = text(m.UID)
	w.State = measurementStates.encode(m.State)
	w.Usage = encodeRows(m.Usage, func(w *pluginv1.SignalUsage, u *eviction.SignalUsage) {
		w.AtMost = u.AtMost
		w.Signal, w.Value = text(string(u.Signal)), u.Value
	})
	w.WorkingSetBytes = referenceFigure(m.WorkingSetBytes)
	w.Processes = referenceFigure(m.Processes)
	w.EphemeralStorageUsedBytes = referenceFigure(m.EphemeralStorageUsedBytes)
	w.TimeUnixNanos = encodeTime(m.Time)
	w.Containers = encodeRows(m.Containers, func(w *pluginv1.ContainerMeasurement, c *eviction.ContainerMeasurement) {
		w.Name = text(c.Name)
		w.WorkingSetBytes = referenceFigure(c.WorkingSetBytes)
		w.RootfsUsedBytes = referenceFigure(c.RootfsUsedBytes)
		w.RootfsInodesUsed = referenceFigure(c.RootfsInodesUsed)
		w.LogsUsedBytes = referenceFigure(c.LogsUsedBytes)
		w.LogsInodesUsed = referenceFigure(c.LogsInodesUsed)
	})
	w.Volumes = encodeRows(m.Volumes, func(w *pluginv1.VolumeMeasurement, v *eviction.VolumeMeasurement) {
		w.Name = text(v.Name)
		w.UsedBytes = referenceFigure(v.UsedBytes)
		w.InodesUsed = referenceFigure(v.InodesUsed)
	})
	w.Error = text(m.Err)
}

func referenceFigure(f eviction.Figure) *int64 {
	if !f.OK {
		return nil
	}
	return new(f.Value)
}

func referenceMeasurements(list []eviction.Measurement) *pluginv1.MeasureResponse {
	return &pluginv1.MeasureResponse{Measurements: encodeRows(list, referenceMeasurement)}
}

func referenceRankRequest(r eviction.RankRequest) *pluginv1.RankRequest {
	return &pluginv1.RankRequest{
		Pass:      r.Pass,
		Signal:    text(string(r.Signal)),
		Unit:      text(string(r.Unit)),
		Threshold: encodeThreshold(r.Threshold),
		Available: r.Available,
		Capacity:  r.Capacity,
		Shortfall: r.Shortfall,
		Hard:      r.Hard,
		Candidates: encodeRows(r.Candidates, func(w *pluginv1.Candidate, c *eviction.Candidate) {
			w.Pod, w.Measurement = new(pluginv1.Pod), new(pluginv1.Measurement)
			referencePod(w.Pod, &c.Pod)
			referenceMeasurement(w.Measurement, &c.Measurement)
			w.Measurement.Uid = "" // the uid of the pod counts
		}),
	}
}

func referenceRanking(r []eviction.Ranked) *pluginv1.RankResponse {
	return &pluginv1.RankResponse{
		Ranking: encodeRows(r, func(w *pluginv1.Ranked, r *eviction.Ranked) {
			w.Uid, w.Reason = text(r.UID), text(r.Reason)
		}),
	}
}

// wanting returns e for a receiver that wants to see all of p.
func (e podEncoder) wanting(p *eviction.Pod) podEncoder {
	e.labels = slices.AppendSeq(e.labels, maps.Keys(p.Labels))
	e.annotations = slices.AppendSeq(e.annotations, maps.Keys(p.Annotations))
	return e
}
