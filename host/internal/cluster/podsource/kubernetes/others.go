package kubernetes

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/core/policy"
	"github.com/evictd/evictd/host/internal/core/victim"
	"github.com/evictd/evictd/shared/eviction"
)

// maxOtherBytes bounds the message in a record of an eviction by another program.
const maxOtherBytes = 1 << 10

const theKubelet, podGC = "the kubelet", "pod garbage collection"

// evictors holds who evicts a pod, by the reason of its condition DisruptionTarget.
var evictors = map[string]string{
	v1.PodReasonTerminationByKubelet: theKubelet, v1.PodReasonPreemptionByScheduler: "the scheduler",
	"EvictionByEvictionAPI": "the eviction API", "DeletionByTaintManager": "the taint manager", "DeletionByPodGC": podGC,
}

// starved holds the signal of a resource that the kubelet's message names.
var starved = map[string]eviction.Signal{
	"memory": eviction.MemoryAvailable, "ephemeral-storage": eviction.NodeFsAvailable, "inodes": eviction.NodeFsInodesFree, "pids": eviction.PIDAvailable,
}

// byOther returns the record of the pod's eviction by another program, nil if it was not evicted or has
// evictd's mark. The eviction may still be evictd's: not each has one. deleted: the pod is gone.
func (e *entry) byOther(deleted bool) *decision.Decision {
	p, ended := e.api, e.state() == eviction.PodTerminated
	target := conditionOf(p, v1.DisruptionTarget, v1.ConditionTrue)
	by, message := evictors[target.Reason], target.Message
	switch {
	case p.Status.Phase == v1.PodFailed && p.Status.Reason == victim.ReasonEvicted: // a later drain replaces the kubelet's condition
		by, message = theKubelet, cmp.Or(p.Status.Message, message)
	case by == "", ended && by != theKubelet && by != podGC, !ended && !deleted && p.DeletionTimestamp == nil:
		return nil // it had ended before, or its eviction has not begun
	}
	mark, err := time.Parse(time.RFC3339Nano, p.Annotations[victim.AnnotationEvicted])
	if err == nil && target.Reason == v1.PodReasonTerminationByKubelet && mark.Unix() == target.LastTransitionTime.Unix() {
		return nil
	}
	// The kubelet sets no condition for a limit of the pod's own, and none at all if it rejects the pod.
	ready, started := conditionOf(p, v1.PodReady, v1.ConditionFalse), cmp.Or(p.Status.StartTime, &metav1.Time{})
	at := cmp.Or(target.LastTransitionTime.Time, ready.LastTransitionTime.Time, started.Time)
	return &decision.Decision{
		Version: decision.Version, ID: decision.NewID(at), Kind: decision.KindOther, Time: at.UTC(), ByOthers: decision.ByOthers{By: by},
		Victim: &decision.Victim{
			UID: string(p.UID), Pod: key(p), Owner: pods.OwnerOf(p), Signal: string(starved[policy.Starved(message)]), Message: message[:min(len(message), maxOtherBytes)],
		},
	}
}

// conditionOf returns the condition of p with a status, zero if there is none.
func conditionOf(p *v1.Pod, of v1.PodConditionType, status v1.ConditionStatus) (c v1.PodCondition) {
	if i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == of && c.Status == status }); i >= 0 {
		c = p.Status.Conditions[i]
	}
	return c
}
