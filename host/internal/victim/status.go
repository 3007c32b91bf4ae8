package victim

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationEvicted marks a pod that was evicted, with the time of the decision. A kubelet
// acts on a status that others have written only when something else of the pod has
// changed as well, and it leaves the annotation where it is.
const AnnotationEvicted = "evictd.io/evicted"

// AnnotationRecord names the record of the decision, in the pod and in the event, for
// evictd explain.
const AnnotationRecord = "evictd.io/record"

// AnnotationWhy says in one line for the owner of the pod why it goes, in the pod and in the event.
const AnnotationWhy = "evictd.io/why"

// messageDisrupted explains the condition of a pod that was preempted. It is not
// the message of the status, unlike that of an evicted one.
const messageDisrupted = "Pod was preempted by Kubelet to accommodate a critical pod."

// SetEvicted makes status that of a pod after an eviction with message: failed,
// evicted and, if node pressure was the reason (and not a limit of the pod's
// own), marked as disrupted. generation is the pod's.
func SetEvicted(status *v1.PodStatus, generation int64, message string, pressure bool, now time.Time) {
	fail(status, ReasonEvicted, message)
	if pressure {
		disrupt(status, generation, message, now)
	}
}

// SetPreempted makes status that of a pod that had to make room for a critical
// one. generation is the pod's.
func SetPreempted(status *v1.PodStatus, generation int64, now time.Time) {
	fail(status, ReasonPreempting, MessagePreempted)
	disrupt(status, generation, messageDisrupted, now)
}

func fail(status *v1.PodStatus, reason, message string) {
	status.Phase, status.Reason, status.Message = v1.PodFailed, reason, message
}

// disrupt says that it was not the pod's own doing.
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
