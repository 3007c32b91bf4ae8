package kubelet

import (
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evictd/evictd/host/internal/replay"
)

// record notes what a manager does in a pass. It is its recorder, its kill
// function and its garbage collector.
type record struct {
	outcome replay.Outcome
	// killErrors are the step's, by uid; "*" is every pod.
	killErrors map[string]string
	// evicted is told before each kill, when the kill before it was counted.
	evicted func()
}

func (r *record) Event(object runtime.Object, eventtype, reason, message string) {
	r.AnnotatedEventf(object, nil, eventtype, reason, "%s", message)
}

func (r *record) Eventf(object runtime.Object, eventtype, reason, messageFmt string, args ...any) {
	r.AnnotatedEventf(object, nil, eventtype, reason, messageFmt, args...)
}

func (r *record) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventtype, reason, messageFmt string, args ...any) {
	e := replay.Event{Type: eventtype, Reason: reason, Message: fmt.Sprintf(messageFmt, args...), Annotations: annotations}
	switch o := object.(type) {
	case *v1.ObjectReference:
		e.Kind, e.UID, e.Name = o.Kind, string(o.UID), o.Name
	case *v1.Pod:
		e.Kind, e.UID, e.Name = "Pod", string(o.UID), o.Name
	}
	r.outcome.Events = append(r.outcome.Events, e)
}

// kill is the kubelet's KillPodFunc.
func (r *record) kill(pod *v1.Pod, isEvicted bool, grace *int64, change func(*v1.PodStatus)) error {
	if r.evicted != nil {
		r.evicted()
	}
	status := pod.Status.DeepCopy()
	if change != nil {
		change(status)
	}
	e := replay.Eviction{
		UID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name, IsEvicted: isEvicted,
		Phase: string(status.Phase), Reason: status.Reason, Message: status.Message,
		Conditions: changed(pod.Status.Conditions, status.Conditions),
	}
	if grace != nil {
		e.GracePeriodSeconds = *grace
	}
	text, ok := r.killErrors[e.UID]
	if !ok {
		text, ok = r.killErrors["*"]
	}
	e.KillError = text
	r.outcome.Evictions = append(r.outcome.Evictions, e)
	if ok {
		return errors.New(text)
	}
	return nil
}

// changed returns those of after that are not in before, without their time.
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
