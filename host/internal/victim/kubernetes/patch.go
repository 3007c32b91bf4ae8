package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/rundir"
	"github.com/evictd/evictd/host/internal/victim"
)

// maxTextBytes bounds a message and an annotation, as the admission policies do: those of a pod
// with hundreds of containers are longer.
const maxTextBytes = 16 << 10

// component stands as the source in events.
const component = "evictd"

// A patch is the one write that has a kubelet end a pod: the status alone would not reach
// it. The uid has it fail for another pod of the same name.
type patch struct {
	Metadata struct {
		UID             types.UID         `json:"uid"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
		Labels          map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Status struct {
		Phase      v1.PodPhase `json:"phase"`
		Reason     string      `json:"reason"`
		Message    string      `json:"message"`
		Conditions []condition `json:"conditions,omitempty"`
	} `json:"status"`
}

// A form is a way to write an eviction to the API server.
type form int

// Each form writes less than the one before it, for a pod whose annotations are full and for
// clusters that refuse a condition more. The kubelet acts on each.
const (
	annotated form = iota // by annotation, with the condition
	labeled               // by label, with the condition
	bare                  // by label alone
	forms
)

// labelTime is the time of an eviction as a label's value, which has no colons.
const labelTime = "20060102T150405.000000000Z"

// A condition has no time of a probe, rather than none that replaces the one that is there.
type condition struct {
	v1.PodCondition
	LastProbeTime *struct{} `json:"lastProbeTime,omitempty"`
}

// patchOf returns the patch of a kill, as a strategic merge patch of pods/status. It fails if the
// pod is no longer of resourceVersion, unless that is empty.
func patchOf(k rundir.Kill, f form, resourceVersion string) ([]byte, error) {
	var p patch
	p.Metadata.UID, p.Metadata.ResourceVersion = types.UID(k.UID), resourceVersion
	if f == annotated {
		p.Metadata.Annotations = map[string]string{victim.AnnotationEvicted: stamp(k)}
		if k.Record != "" {
			p.Metadata.Annotations[victim.AnnotationRecord] = k.Record
		}
		if why := k.Annotations[victim.AnnotationWhy]; why != "" {
			p.Metadata.Annotations[victim.AnnotationWhy] = why
		}
	} else {
		p.Metadata.Labels = map[string]string{victim.AnnotationEvicted: k.EvictedAt.UTC().Format(labelTime)}
	}
	var status v1.PodStatus
	victim.SetEvicted(&status, k.Generation, bounded(k.Message, ". "), !k.Limit && f != bare, k.EvictedAt.UTC())
	p.Status.Phase, p.Status.Reason, p.Status.Message = status.Phase, status.Reason, status.Message
	for _, c := range status.Conditions {
		p.Status.Conditions = append(p.Status.Conditions, condition{PodCondition: c})
	}
	return json.Marshal(p)
}

// stamp returns the annotation's value.
func stamp(k rundir.Kill) string { return k.EvictedAt.UTC().Format(time.RFC3339Nano) }

// evictedAt returns when evictd has evicted p, or a pod that p is a copy of, in the form of
// stamp; empty if it has not.
func evictedAt(p *v1.Pod) string {
	at, err := time.Parse(labelTime, p.Labels[victim.AnnotationEvicted])
	if err != nil {
		return p.Annotations[victim.AnnotationEvicted]
	}
	return at.Format(time.RFC3339Nano)
}

// eventOf returns the event of an eviction, with a name of its own: a second one is refused.
func eventOf(k rundir.Kill, nodeName string) *v1.Event {
	at := metav1.NewTime(k.EvictedAt)
	annotations := maps.Clone(k.Annotations)
	for key, value := range annotations {
		annotations[key] = bounded(value, ",")
	}
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: fmt.Sprintf("%s.%x", k.Name, k.EvictedAt.UnixNano()), Annotations: annotations},
		InvolvedObject: v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: k.Namespace, Name: k.Name, UID: types.UID(k.UID), ResourceVersion: k.ResourceVersion,
		},
		Reason: victim.ReasonEvicted, Message: bounded(k.Message, ". "), Type: v1.EventTypeWarning, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: v1.EventSource{Component: component, Host: nodeName}, ReportingController: component, ReportingInstance: nodeName,
	}
}

// bounded cuts text after the last end of a part that fits.
func bounded(text, end string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return text[:strings.LastIndex(text[:maxTextBytes], end)+len(end)]
}

// Patch returns the body of an eviction of a pod under node pressure, for a dry run, with all that
// one may have: a policy that is older than this evictd must not let it pass.
func Patch(p *v1.Pod) ([]byte, error) {
	return patchOf(rundir.Kill{
		Record:      "20260101T000000.000Z-00000000", // of the form of all
		Annotations: map[string]string{victim.AnnotationWhy: "uses 1Gi without a request"},
		UID:         string(p.UID), Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, EvictedAt: time.Now(),
		Message: "The node was low on resource: memory. ",
	}, annotated, "")
}

// isTerminating reports whether the kubelet has begun to end a pod that was evicted: the first
// that it writes then is that the pod is not ready, because it has ended.
func isTerminating(p *v1.Pod) bool {
	return isDeleted(p) || slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && (c.Reason == "PodFailed" || c.Reason == "PodCompleted")
	})
}

// isStarting reports whether a container of p has yet to start.
func isStarting(p *v1.Pod) bool {
	waits := func(c v1.ContainerStatus) bool { return c.State.Waiting != nil }
	return p.Status.Phase == v1.PodPending || len(p.Status.ContainerStatuses) == 0 ||
		slices.ContainsFunc(p.Status.ContainerStatuses, waits) || slices.ContainsFunc(p.Status.InitContainerStatuses, waits)
}

// contradicted reports whether a pod that was evicted has another status again: the API
// server was away, and the kubelet wrote what it knew before it received the eviction.
func contradicted(p *v1.Pod) bool {
	return isEvicted(p) && !hasEnded(p) && !isMirror(p) && !isDeleted(p)
}

// message returns the message of an eviction for the node's pressure, from the condition that no
// kubelet writes over and no copy of the pod has; empty if there is none.
func message(p *v1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.DisruptionTarget && c.Reason == v1.PodReasonTerminationByKubelet {
			return c.Message
		}
	}
	return ""
}
