package kubernetes

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/victim"
)

// marked reports whether p has the eviction of the given time. A pod's owner can write annotations
// and labels before and after the eviction, so only the value of this eviction counts. The
// condition has the time in seconds, and the owner cannot take it away.
func marked(p *v1.Pod, at time.Time) bool {
	return p.Annotations[victim.AnnotationEvicted] == at.UTC().Format(time.RFC3339Nano) ||
		p.Labels[victim.AnnotationEvicted] == at.UTC().Format(labelTime) ||
		disruption(p).LastTransitionTime.Unix() == at.Unix()
}

// formerly returns an eviction of p that is not in the journal, from the condition alone: a mark may
// be the owner's, or that of a pod of which p is a copy.
func formerly(p *v1.Pod) (k victim.Kill, was bool) {
	c := disruption(p)
	return victim.Kill{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Message: c.Message, EvictedAt: c.LastTransitionTime.Time}, c.Message != ""
}

// disruption returns the condition of an eviction for node pressure, which no kubelet overwrites,
// no copy of the pod has, and no pod's owner can write. It is zero if there is none.
func disruption(p *v1.Pod) (c v1.PodCondition) {
	if i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue && c.Reason == v1.PodReasonTerminationByKubelet
	}); i >= 0 {
		c = p.Status.Conditions[i]
	}
	return c
}
