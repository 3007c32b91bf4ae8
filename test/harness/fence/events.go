package fence

import (
	"encoding/json"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// event is one that evictd records of a pod, changed.
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

// Events are the writes of events.
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
		whom   = "evictd tells of pods and of the node that the token is bound to"
	)
	return []Write{
		made("of a pod", "", PodBound),
		made("of a pod, the token bound to the node", "", NodeBound),
		made("of a pod, without the node", "", PodBound, from("evictd", "")),
		made("of the node", "", PodBound, about("Node", Node)),
		again("once more", "", event(), more),
		made("with a token that is bound to nothing", "the token is bound to no node", Unbound, from("evictd", "")),
		made("in the kubelet's name", source, PodBound, from("kubelet", Node)),
		made("for another node", source, PodBound, from("evictd", Other)),
		made("of another node", whom, PodBound, about("Node", Other)),
		made("of a deployment", whom, PodBound, about("Deployment", "web")),
		again("one of the kubelet's once more", "the event is not evictd's", event(from("kubelet", Node)), `{"source": {"component": "evictd"}}`),
		again("given to the kubelet", source, event(), `{"source": {"component": "kubelet"}}`),
		{Name: "taken away", Verb: "delete", Resource: "events", Was: event(), Refused: "evictd writes core events and deletes none"},
	}
}
