package kubelet

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evictd/evictd/host/internal/why/replay"
)

// OwnGrace stands for a kill with the pod's own grace period.
const OwnGrace = -1 << 31

// A Record records a manager's actions. It is its recorder and its kill function.
type Record struct {
	Outcome replay.Outcome
	// KillErrors holds the errors of kills, by uid; "*" means every pod.
	KillErrors map[string]string
}

// Event implements record.EventRecorder.
func (r *Record) Event(object runtime.Object, eventtype, reason, message string) {
	r.AnnotatedEventf(object, nil, eventtype, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (r *Record) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	r.AnnotatedEventf(object, nil, eventtype, reason, messageFmt, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (r *Record) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	e := replay.Event{Type: eventtype, Reason: reason, Message: fmt.Sprintf(messageFmt, args...), Annotations: annotations}
	switch o := object.(type) {
	case *v1.ObjectReference:
		e.Kind, e.UID, e.Name = o.Kind, string(o.UID), o.Name
	case *v1.Pod:
		e.Kind, e.UID, e.Name = "Pod", string(o.UID), o.Name
	}
	r.Outcome.Events = append(r.Outcome.Events, e)
}

// Kill is the kubelet's KillPodFunc.
func (r *Record) Kill(pod *v1.Pod, isEvicted bool, grace *int64, change func(*v1.PodStatus)) error {
	status := pod.Status.DeepCopy()
	if change != nil {
		change(status)
	}
	e := replay.Eviction{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, GracePeriodSeconds: OwnGrace, IsEvicted: isEvicted,
		Phase: string(status.Phase), Reason: status.Reason, Message: status.Message,
		Conditions: changed(pod.Status.Conditions, status.Conditions),
	}
	if grace != nil {
		e.GracePeriodSeconds = *grace
	}
	text, ok := r.KillErrors[e.UID]
	if !ok {
		text, ok = r.KillErrors["*"]
	}
	e.KillError = text
	r.Outcome.Evictions = append(r.Outcome.Evictions, e)
	if ok {
		return errors.New(text)
	}
	return nil
}

// changed returns the conditions in after that are not in before, without their times.
func changed(before, after []v1.PodCondition) []v1.PodCondition {
	var out []v1.PodCondition
	for _, c := range after {
		if !slices.ContainsFunc(before, func(b v1.PodCondition) bool { return equality.Semantic.DeepEqual(b, c) }) {
			c.LastTransitionTime = metav1.Time{}
			out = append(out, c)
		}
	}
	return out
}
