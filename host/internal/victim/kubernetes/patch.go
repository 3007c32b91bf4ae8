package kubernetes

import (
	"encoding/json"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
)

// A patch is the one write that has a kubelet end a pod: the status alone would not reach
// it. The uid has it fail for another pod of the same name.
type patch struct {
	Metadata struct {
		UID         types.UID         `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Status struct {
		Phase      v1.PodPhase `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status"`
}

// A condition has no time of a probe, rather than none that replaces the one that is there.
type condition struct {
	v1.PodCondition
	LastProbeTime *struct{} `json:"lastProbeTime,omitempty"`
}

// patchOf is the patch, as a strategic merge patch of pods/status, for a kill.
func patchOf(k rundir.Kill) ([]byte, error) {
	var p patch
	p.Metadata.UID = types.UID(k.UID)
	p.Metadata.Annotations = map[string]string{victim.AnnotationEvicted: stamp(k)}
	if k.Record != "" {
		p.Metadata.Annotations[victim.AnnotationRecord] = k.Record
	}
	var status v1.PodStatus
	victim.SetEvicted(&status, k.Generation, k.Message, !k.Limit, k.EvictedAt.UTC())
	p.Status.Phase, p.Status.Reason, p.Status.Message = status.Phase, status.Reason, status.Message
	for _, c := range status.Conditions {
		p.Status.Conditions = append(p.Status.Conditions, condition{PodCondition: c})
	}
	return json.Marshal(p)
}

// stamp is the annotation's value.
func stamp(k rundir.Kill) string { return k.EvictedAt.UTC().Format(time.RFC3339Nano) }

// Patch is the body of an eviction of a pod under node pressure, for a dry run, with all that
// one may have: a policy that is older than this evictd must not let it pass.
func Patch(p *v1.Pod) ([]byte, error) {
	return patchOf(rundir.Kill{
		Record: "20260101T000000.000Z-00000000", // of the form of all
		UID:    string(p.UID), Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, EvictedAt: time.Now(),
		Message: "The node was low on resource: memory. ",
	})
}

// isTerminating reports whether the kubelet has begun to end a pod that was evicted, as seen in
// the pod that the API server has returned for a patch: the first that the kubelet writes
// then is that the pod is not ready, because it has ended.
func isTerminating(p *v1.Pod) bool {
	return p == nil || isDeleted(p) || slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && (c.Reason == "PodFailed" || c.Reason == "PodCompleted")
	})
}

// contradicted reports whether a pod that was evicted has another status again: the API
// server was away, and the kubelet wrote what it knew before it heard of the eviction.
func contradicted(p *v1.Pod) bool {
	return p.Annotations[victim.AnnotationEvicted] != "" && !hasEnded(p) && !isMirror(p) && !isDeleted(p)
}

// message is that of an eviction for the node's pressure, from the condition that no kubelet
// writes over and no copy of the pod has; empty if there is none.
func message(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Reason == v1.PodReasonTerminationByKubelet {
			return c.Message
		}
	}
	return ""
}
