package adapter

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
)

// events sends events to the kubelet's recorder.
type events struct {
	to   record.EventRecorder
	node *v1.ObjectReference
}

// NodeEvent implements host.Recorder.
func (e events) NodeEvent(eventType, reason, message string) {
	e.to.Event(e.node, eventType, reason, message)
}

// PodEvent implements host.Recorder.
func (e events) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	e.to.AnnotatedEventf(pod, annotations, eventType, reason, "%s", message)
}
