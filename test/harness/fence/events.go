package fence

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// event returns an event that evictd records about a pod, after the given changes.
func event(change ...func(*v1.Event)) *v1.Event {
	e := &v1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: Namespace, Name: "NAME"},
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: Namespace, Name: "web", UID: "0f", APIVersion: "v1"},
		Reason:         "Evicted", Message: low, Type: v1.EventTypeWarning, Count: 1,
		Source: v1.EventSource{Component: "evictd", Host: Node}, ReportingController: "evictd", ReportingInstance: Node,
	}
	for _, c := range change {
		c(e)
	}
	return e
}

func from(component, host string) func(*v1.Event) {
	return func(e *v1.Event) { e.Source = v1.EventSource{Component: component, Host: host} }
}

func about(kind, name string) func(*v1.Event) {
	return func(e *v1.Event) { e.InvolvedObject = v1.ObjectReference{Kind: kind, Name: name, UID: types.UID(name)} }
}

// ofOwner makes an event one of a pod's controller.
func ofOwner(apiVersion, kind string) func(*v1.Event) {
	return func(e *v1.Event) {
		e.Reason, e.InvolvedObject.APIVersion, e.InvolvedObject.Kind = "PodEvicted", apiVersion, kind
	}
}

var in2106 = metav1.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC)

const managers = "evictd writes no managedFields but those of its own manager evictd"

// managed returns an entry of managedFields for one field.
func managed(manager, time, field string) string {
	return fmt.Sprintf(`{"manager": %q, "operation": "Update", "apiVersion": "v1", "time": %q, "fieldsType": "FieldsV1", "fieldsV1": {%q: {}}}`, manager, time, field)
}

func annotator(e *v1.Event) metav1.ManagedFieldsEntry {
	e.Annotations = map[string]string{"team": "a"}
	return metav1.ManagedFieldsEntry{
		Manager: "annotator", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: time.Now().Add(-time.Hour)},
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata": {"f:annotations": {".": {}, "f:team": {}}}}`),
	}
}

// annotatedByAnother makes an event one with an annotation of another program's.
func annotatedByAnother(e *v1.Event) { e.ManagedFields = []metav1.ManagedFieldsEntry{annotator(e)} }

// writtenByAnother makes an event one whose message another program has written.
func writtenByAnother(e *v1.Event) {
	entry := annotator(e)
	entry.FieldsV1 = metav1.NewFieldsV1(`{"f:message": {}}`)
	e.Annotations, e.ManagedFields = nil, []metav1.ManagedFieldsEntry{entry}
}

// Events returns the writes of events.
func Events() []Write {
	made := func(name, refused string, token Token, change ...func(*v1.Event)) Write {
		body, err := json.Marshal(event(change...))
		if err != nil {
			panic(err) // made of what is above
		}
		return Write{Name: name, Token: token, Verb: "create", Resource: "events", Body: string(body), Refused: refused}
	}
	again := func(name, refused string, was *v1.Event, body string) Write {
		return Write{Name: name, Verb: "patch", Resource: "events", Was: was, Patch: types.StrategicMergePatchType, Body: body, Refused: refused}
	}
	const (
		more   = `{"count": 2}`
		source = "the source of the event has to be evictd on the node that the token is bound to"
		whom   = "evictd tells of pods, of the node that the token is bound to, and of a pod's controller that the pod was evicted"
		stays  = "what an event is about and its reason stay"
		bounds = "an event has type Normal or Warning, a reason of 64 letters"
		fields = "an event has no fields but those that evictd writes"
		later  = "a time of an event is more than a day in the future"
		notes  = "an event has at most 16 annotations"
	)
	early := made("of 2106", later, PodBound, func(e *v1.Event) { e.EventTime = metav1.MicroTime(in2106) })
	early.Early = true // an event with this time needs an action
	elsewhere := made("of a job in another namespace", whom, PodBound, ofOwner("batch/v1", "Job"), func(e *v1.Event) { e.InvolvedObject.Namespace = "shop" })
	elsewhere.Early = true
	many := map[string]string{}
	for i := range 17 {
		many[fmt.Sprintf("a%d", i)] = "1"
	}
	return []Write{
		made("of a pod", "", PodBound),
		made("of a pod, the token bound to the node", "", NodeBound),
		made("of the node", "", PodBound, about("Node", Node)),
		made("of a pod with many containers", "", PodBound, func(e *v1.Event) {
			e.Message, e.Annotations = low+strings.Repeat(using, 120), map[string]string{"offending_containers": strings.Repeat("c,", 8000), "evictd.io/record": "20260101T000000.000Z-00000000"}
		}),
		again("once more", "", event(), more),
		again("once more, with another message", "", event(), `{"count": 2, "message": "(combined from similar events): x", "lastTimestamp": "2026-01-01T00:00:01Z"}`),
		made("with a token that is bound to nothing", "the token is bound to no node", Unbound, from("evictd", ""), func(e *v1.Event) { e.ReportingInstance = "" }),
		made("with the token of a pod without a node", "the token is bound to no node", Unscheduled, from("evictd", "")),
		made("without the node", source, PodBound, from("evictd", "")),
		made("in the kubelet's name", source, PodBound, from("kubelet", Node)),
		made("in nobody's name", source, PodBound, from("", Node)),
		made("for another node", source, PodBound, from("evictd", Other)),
		made("reported by the kubelet", source, PodBound, func(e *v1.Event) { e.ReportingController = "kubelet" }),
		made("reported by another node", source, PodBound, func(e *v1.Event) { e.ReportingInstance = Other }),
		made("of another node", whom, PodBound, about("Node", Other)),
		made("of a deployment", whom, PodBound, about("Deployment", "web")),
		made("of a job whose pod it has evicted", "", PodBound, ofOwner("batch/v1", "Job")),
		made("of a replica set", "", PodBound, ofOwner("apps/v1", "ReplicaSet")),
		made("of a stateful set", "", PodBound, ofOwner("apps/v1", "StatefulSet")),
		made("of a daemon set", "", PodBound, ofOwner("apps/v1", "DaemonSet")),
		made("of a replication controller", "", PodBound, ofOwner("v1", "ReplicationController")),
		again("of a job once more", "", event(ofOwner("batch/v1", "Job")), more),
		made("of a deployment whose pod it has evicted", whom, PodBound, ofOwner("apps/v1", "Deployment")),
		made("of a job of another group", whom, PodBound, ofOwner("example.com/v1", "Job")),
		made("of a job without a group", whom, PodBound, ofOwner("", "Job")),
		made("of a job for another reason", whom, PodBound, ofOwner("batch/v1", "Job"), func(e *v1.Event) { e.Reason = "Evicted" }),
		again("of a job, then for another reason", stays, event(ofOwner("batch/v1", "Job")), `{"reason": "BackoffLimitExceeded"}`),
		elsewhere,
		made("of a job in the kubelet's name", source, PodBound, ofOwner("batch/v1", "Job"), from("kubelet", Node)),
		made("of a job with a message of 500 kB", bounds, PodBound, ofOwner("batch/v1", "Job"), func(e *v1.Event) { e.Message = strings.Repeat("x", 500<<10) }),
		made("of something without a kind", whom, PodBound, about("", "web")),
		again("one of the kubelet's once more", "the event is not evictd's", event(from("kubelet", Node)), `{"source": {"component": "evictd"}}`),
		again("one of another node's evictd once more", "the event is not evictd's", event(from("evictd", Other)), `{"source": {"host": "node-a"}}`),
		again("given to the kubelet", source, event(), `{"source": {"component": "kubelet"}}`),
		again("given to another node", source, event(), `{"source": {"host": "node-b"}}`),
		again("about another pod", stays, event(), `{"involvedObject": {"name": "db"}}`),
		again("about a pod of another uid", stays, event(), `{"involvedObject": {"uid": "ff"}}`),
		again("for another reason", stays, event(), `{"reason": "Killing"}`),
		made("of a type of its own", bounds, PodBound, func(e *v1.Event) { e.Type = "Panic" }),
		made("without a reason", bounds, PodBound, func(e *v1.Event) { e.Reason = "" }),
		made("with a text as its reason", bounds, PodBound, func(e *v1.Event) { e.Reason = "call this number" }),
		made("with a reason of 65 letters", bounds, PodBound, func(e *v1.Event) { e.Reason = strings.Repeat("A", 65) }),
		made("with a message of 500 kB", bounds, PodBound, func(e *v1.Event) { e.Message = strings.Repeat("x", 500<<10) }),
		again("a message of 500 kB later", bounds, event(), `{"message": "`+strings.Repeat("x", 500<<10)+`"}`),
		again("counted to two millions", bounds, event(), `{"count": 2000000}`),
		made("with a label", fields, PodBound, func(e *v1.Event) { e.Labels = map[string]string{"app": "web"} }),
		made("with a finalizer", fields, PodBound, func(e *v1.Event) { e.Finalizers = []string{"example.com/mine"} }),
		made("with an owner", fields, PodBound, func(e *v1.Event) {
			e.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web", UID: "0f"}}
		}),
		again("a label later", fields, event(), `{"metadata": {"labels": {"app": "web"}}}`),
		made("with a related object", fields, PodBound, func(e *v1.Event) { e.Related = &v1.ObjectReference{Kind: "Node", Name: Other} }),
		made("with an action", fields, PodBound, func(e *v1.Event) { e.Action = "Binding" }),
		made("with 17 annotations", notes, PodBound, func(e *v1.Event) { e.Annotations = many }),
		made("with an annotation of 100 kB", notes, PodBound, func(e *v1.Event) { e.Annotations = map[string]string{"a": strings.Repeat("x", 100<<10)} }),
		made("with a long key", notes, PodBound, func(e *v1.Event) { e.Annotations = map[string]string{"example.com/" + strings.Repeat("x", 60): "1"} }),
		made("of now", "", PodBound, func(e *v1.Event) {
			e.FirstTimestamp, e.LastTimestamp = metav1.Now(), metav1.Now()
		}),
		made("of the time before an outage", "", PodBound, func(e *v1.Event) { e.FirstTimestamp = metav1.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }),
		made("first in 2106", later, PodBound, func(e *v1.Event) { e.FirstTimestamp = in2106 }),
		made("last in 2106", later, PodBound, func(e *v1.Event) { e.LastTimestamp = in2106 }),
		early,
		again("last in 2106, later", later, event(), `{"count": 2, "lastTimestamp": "2106-02-07T06:28:15Z"}`),
		again("last in 2106, and so its managedFields", later, event(), `{"count": 2, "lastTimestamp": "2106-02-07T06:28:15Z", "metadata": {"managedFields": [`+managed("evictd", "2106-02-07T06:28:15Z", "f:count")+`]}}`),
		again("an annotation of another's stays", "", event(annotatedByAnother), more),
		again("another's message is replaced", "", event(writtenByAnother), `{"message": "x"}`),
		again("managedFields emptied", managers, event(annotatedByAnother), `{"metadata": {"managedFields": [{}]}}`),
		again("another's entry removed", managers, event(annotatedByAnother), `{"metadata": {"managedFields": [`+managed("evictd", "2026-01-01T00:00:00Z", "f:count")+`]}}`),
		again("another's entry changed", managers, event(annotatedByAnother), `{"metadata": {"managedFields": [`+managed("annotator", "2026-01-01T00:00:00Z", "f:message")+`]}}`),
		{Name: "taken away", Verb: "delete", Resource: "events", Was: event(), Refused: "evictd writes core events and deletes none"},
	}
}
