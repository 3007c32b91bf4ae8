package actuate

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EvictedStatus is the status of pod after an eviction with message: failed,
// evicted and, if node pressure was the reason (and not a limit of the pod's
// own), marked as disrupted. pod is not changed.
func EvictedStatus(pod *v1.Pod, message string, pressure bool, now time.Time) v1.PodStatus {
	status := *pod.Status.DeepCopy()
	status.Phase = v1.PodFailed
	status.Reason = ReasonEvicted
	status.Message = message
	if pressure {
		setCondition(&status, v1.PodCondition{
			Type:               v1.DisruptionTarget,
			Status:             v1.ConditionTrue,
			Reason:             v1.PodReasonTerminationByKubelet,
			Message:            message,
			ObservedGeneration: pod.Generation,
			LastTransitionTime: metav1.NewTime(now),
		})
	}
	return status
}

// setCondition replaces the condition of the same type, in its place. What did
// not change keeps the time of its last transition.
func setCondition(status *v1.PodStatus, c v1.PodCondition) {
	for i := range status.Conditions {
		former := &status.Conditions[i]
		if former.Type != c.Type {
			continue
		}
		if former.Status == c.Status {
			c.LastTransitionTime = former.LastTransitionTime
		}
		*former = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}
