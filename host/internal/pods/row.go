package pods

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/eviction"
)

// Row returns the compact row of pod. It has all labels and annotations, of
// which a plugin is sent those that it asked for. It keeps containers and the
// pod's maps, and changes nothing.
func (r Rules) Row(pod *v1.Pod, containers []eviction.Container) eviction.Pod {
	row := eviction.Pod{
		UID:                          string(pod.UID),
		Namespace:                    pod.Namespace,
		Name:                         pod.Name,
		Labels:                       pod.Labels,
		Annotations:                  pod.Annotations,
		QoSClass:                     r.QoSClass(pod),
		MemoryRequestBytes:           r.Request(pod, v1.ResourceMemory),
		EphemeralStorageRequestBytes: r.Request(pod, v1.ResourceEphemeralStorage),
		Volumes:                      volumes(pod),
		Containers:                   containers,
		Running:                      slices.ContainsFunc(pod.Status.ContainerStatuses, func(s v1.ContainerStatus) bool { return s.State.Running != nil }),
	}
	if pod.Spec.Priority != nil {
		row.Priority = *pod.Spec.Priority
	}
	if pod.Status.StartTime != nil {
		row.StartTime = pod.Status.StartTime.Time
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		row.OwnerKind = owner.Kind
	}
	return row
}
