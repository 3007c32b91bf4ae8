package victim

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationEvicted marks an evicted pod, with the time of the decision. A kubelet acts on a status
// written by others only if another part of the pod has changed as well, and it preserves the
// annotation.
const AnnotationEvicted = "evictd.io/evicted"

// AnnotationRecord holds the id of the decision's record, in the pod and in the event, for evictd
// explain.
const AnnotationRecord = "evictd.io/record"

// AnnotationWhy tells the pod's owner in one line why it is evicted, in the pod and in the event.
const AnnotationWhy = "evictd.io/why"

// messageDisrupted is the condition's message for a preempted pod. Unlike for an evicted one, the
// status has another message.
const messageDisrupted = "Pod was preempted by Kubelet to accommodate a critical pod."

// SetEvicted sets the status of an evicted pod: failed, with message, and the DisruptionTarget
// condition if node pressure was the reason (not a limit of the pod itself). generation is the
// pod's.
func SetEvicted(status *v1.PodStatus, generation int64, message string, pressure bool, now time.Time) {
	fail(status, ReasonEvicted, message)
	if pressure {
		disrupt(status, generation, message, now)
	}
}

// SetPreempted sets the status of a pod that was killed for a critical one. generation is the
// pod's.
func SetPreempted(status *v1.PodStatus, generation int64, now time.Time) {
	fail(status, ReasonPreempting, MessagePreempted)
	disrupt(status, generation, messageDisrupted, now)
}

func fail(status *v1.PodStatus, reason, message string) {
	status.Phase, status.Reason, status.Message = v1.PodFailed, reason, message
}

// disrupt adds the DisruptionTarget condition.
func disrupt(status *v1.PodStatus, generation int64, message string, now time.Time) {
	setCondition(status, v1.PodCondition{
		Type:               v1.DisruptionTarget,
		Status:             v1.ConditionTrue,
		Reason:             v1.PodReasonTerminationByKubelet,
		Message:            message,
		ObservedGeneration: generation,
		LastTransitionTime: metav1.NewTime(now),
	})
}

// setCondition replaces the condition of the same type in place. If its status is unchanged it
// keeps the last transition time.
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
