package wire

import (
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire/internal/pluginv1"
)

// podEncoder writes pod rows with only those labels and annotations that the
// receiver asked for.
type podEncoder struct {
	labels, annotations []string
}

func (e podEncoder) encode(w *pluginv1.Pod, p *eviction.Pod) {
	w.Uid = text(p.UID)
	w.Namespace = text(p.Namespace)
	w.Name = text(p.Name)
	w.Labels = pick(p.Labels, e.labels)
	w.Annotations = pick(p.Annotations, e.annotations)
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
}

func decodePod(p *eviction.Pod, w *pluginv1.Pod) {
	*p = eviction.Pod{
		UID:                          w.GetUid(),
		Namespace:                    w.GetNamespace(),
		Name:                         w.GetName(),
		Labels:                       w.GetLabels(),
		Annotations:                  w.GetAnnotations(),
		Priority:                     w.GetPriority(),
		QoSClass:                     eviction.QoSClass(w.GetQosClass()),
		StartTime:                    decodeTime(w.GetStartTimeUnixNanos()),
		OwnerKind:                    w.GetOwnerKind(),
		MemoryRequestBytes:           w.GetMemoryRequestBytes(),
		EphemeralStorageRequestBytes: w.GetEphemeralStorageRequestBytes(),
		Volumes: decodeRows(w.GetVolumes(), func(v *eviction.Volume, w *pluginv1.Volume) {
			v.Name, v.Kind, v.Medium, v.CountsForRanking = w.GetName(), w.GetKind(), w.GetMedium(), w.GetCountsForRanking()
		}),
		Containers: decodeRows(w.GetContainers(), func(c *eviction.Container, w *pluginv1.Container) {
			c.Name, c.ID = w.GetName(), w.GetId()
		}),
	}
}

func pick(from map[string]string, keys []string) map[string]string {
	if len(from) == 0 {
		return nil
	}
	var out map[string]string
	for _, k := range keys {
		v, ok := from[k]
		if !ok {
			continue
		}
		if out == nil {
			out = make(map[string]string, len(keys))
		}
		out[k] = text(v)
	}
	return out
}
