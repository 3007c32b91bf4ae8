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

	"github.com/evictd/evictd/host/internal/core/victim"
)

// maxTextBytes bounds a message and an annotation, like the admission policies do: pods with
// hundreds of containers have longer ones.
const maxTextBytes = 16 << 10

// maxOwnerTextBytes bounds the message of a controller's event without the reason in one line.
const maxOwnerTextBytes = 8 << 10

// component is the source of events.
const component = "evictd"

// A patch is the single write that makes a kubelet terminate a pod: it would ignore a change of the
// status alone. The uid makes it fail for another pod of the same name.
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

// Each form writes less than the one before it, for pods with full annotations and for clusters
// that refuse an additional condition. The kubelet acts on each of them.
const (
	annotated form = iota // by annotation, with the condition
	labeled               // by label, with the condition
	bare                  // by label alone
	forms
)

// labelTime is the format of an eviction's time in a label value, which allows no colons.
const labelTime = "20060102T150405.000000000Z"

// A condition omits the time of the last probe, where null would delete the existing one.
type condition struct {
	v1.PodCondition
	LastProbeTime *struct{} `json:"lastProbeTime,omitempty"`
}

// patchOf returns the strategic merge patch of pods/status for a kill. It fails if the pod's
// resourceVersion differs, unless that is empty.
func patchOf(k victim.Kill, f form, resourceVersion string) ([]byte, error) {
	var p patch
	p.Metadata.UID, p.Metadata.ResourceVersion = types.UID(k.UID), resourceVersion
	if f == annotated {
		p.Metadata.Annotations = map[string]string{victim.AnnotationEvicted: k.EvictedAt.UTC().Format(time.RFC3339Nano)}
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
	victim.SetEvicted(&status, k.Generation, bounded(k.Message, ". ", maxTextBytes), !k.Limit && f != bare, k.EvictedAt.UTC())
	p.Status.Phase, p.Status.Reason, p.Status.Message = status.Phase, status.Reason, status.Message
	for _, c := range status.Conditions {
		p.Status.Conditions = append(p.Status.Conditions, condition{PodCondition: c})
	}
	return json.Marshal(p)
}

// eventOf returns the event of an eviction. Its name is unique: a second one is refused.
func eventOf(k victim.Kill, nodeName string) *v1.Event {
	at := metav1.NewTime(k.EvictedAt)
	annotations := maps.Clone(k.Annotations)
	for key, value := range annotations {
		annotations[key] = bounded(value, ",", maxTextBytes)
	}
	return &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: fmt.Sprintf("%s.%x", k.Name, k.EvictedAt.UnixNano()), Annotations: annotations},
		InvolvedObject: v1.ObjectReference{
			APIVersion: "v1", Kind: "Pod", Namespace: k.Namespace, Name: k.Name, UID: types.UID(k.UID), ResourceVersion: k.ResourceVersion,
		},
		Reason: victim.ReasonEvicted, Message: bounded(k.Message, ". ", maxTextBytes), Type: v1.EventTypeWarning, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source: v1.EventSource{Component: component, Host: nodeName}, ReportingController: component, ReportingInstance: nodeName,
	}
}

// ownerEvent returns the message and the annotations of the event of the pod's controller.
func ownerEvent(k victim.Kill, nodeName string) (message string, annotations map[string]string) {
	message = bounded(fmt.Sprintf("Pod %s was evicted from node %s: %s", k.Name, nodeName, k.Message), ". ", maxOwnerTextBytes)
	annotations = map[string]string{}
	for _, key := range []string{victim.AnnotationWhy, victim.AnnotationRecord} {
		if value := k.Annotations[key]; value != "" {
			annotations[key] = value
		}
	}
	if why := annotations[victim.AnnotationWhy]; why != "" {
		message = strings.TrimSuffix(message, " ") + " Why: " + why
	}
	return message, annotations
}

// bounded cuts text after the last part, terminated by end, that fits into so many bytes.
func bounded(text, end string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:strings.LastIndex(text[:most], end)+len(end)]
}

// Patch returns the body of a node-pressure eviction of a pod, for a dry run, with all optional
// fields: an admission policy older than this evictd must reject it.
func Patch(p *v1.Pod) ([]byte, error) {
	return patchOf(victim.Kill{
		Record:      "20260101T000000.000Z-00000000", // of the form of all
		Annotations: map[string]string{victim.AnnotationWhy: "uses 1Gi without a request"},
		UID:         string(p.UID), Namespace: p.Namespace, Name: p.Name, Generation: p.Generation, EvictedAt: time.Now(),
		Message: "The node was low on resource: memory. ",
	}, annotated, "")
}

// isTerminating reports whether the kubelet has begun to terminate an evicted pod: the first thing
// it writes then is that the pod is not ready because it has ended.
func isTerminating(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && (c.Reason == "PodFailed" || c.Reason == "PodCompleted")
	})
}

// isStarting reports whether a container of p has yet to start.
func isStarting(p *v1.Pod) bool {
	waits := func(c v1.ContainerStatus) bool { return c.State.Waiting != nil }
	return p.Status.Phase == v1.PodPending || len(p.Status.ContainerStatuses) == 0 ||
		slices.ContainsFunc(p.Status.ContainerStatuses, waits) || slices.ContainsFunc(p.Status.InitContainerStatuses, waits)
}
