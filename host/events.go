package host

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/face/expected"
)

// maxEvents bounds the events in the status.
const maxEvents = 100

// eventRecorder writes events to the log, the latest to the status, and hands them to
// the embedding program if there is one. It is safe for concurrent use.
type eventRecorder struct {
	nodeName string
	ownPod   *v1.Pod // nil if it is not known
	log      *slog.Logger
	next     Recorder // may be nil

	mu     sync.Mutex
	latest []Event
}

// NodeEvent implements victim.Recorder.
func (r *eventRecorder) NodeEvent(eventType, reason, message string) {
	r.record(Event{Kind: "Node", Name: r.nodeName, UID: r.nodeName, Type: eventType, Reason: reason, Message: message})
	if r.next != nil {
		r.next.NodeEvent(eventType, reason, message)
	}
}

// PodEvent implements victim.Recorder. For some pods the loop has only the identity.
func (r *eventRecorder) PodEvent(pod pods.Pod, eventType, reason, message string, annotations map[string]string) {
	api := pod.API
	if api == nil {
		api = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Row.Namespace, Name: pod.Row.Name, UID: types.UID(pod.Row.UID)}}
	}
	r.record(Event{Kind: "Pod", Name: podName(api), UID: string(api.UID), Type: eventType, Reason: reason, Message: message, Annotations: annotations})
	if r.next != nil {
		r.next.PodEvent(api, annotations, eventType, reason, message)
	}
}

// absence records that a required plugin does not serve, as an event about evictd's own pod if that is known.
func (r *eventRecorder) absence(a expected.Absence) {
	const reason = "PluginNotServing"
	if r.ownPod == nil {
		r.NodeEvent(v1.EventTypeWarning, reason, a.Error())
		return
	}
	r.PodEvent(pods.Pod{API: r.ownPod}, v1.EventTypeWarning, reason, a.Error(), nil)
}

// An embeddedRecorder adapts eventRecorder to the embedding program's Recorder interface.
type embeddedRecorder struct{ *eventRecorder }

// PodEvent implements Recorder.
func (r embeddedRecorder) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	r.eventRecorder.PodEvent(pods.Pod{API: pod}, eventType, reason, message, annotations)
}

func (r *eventRecorder) record(e Event) {
	e.Time = time.Now()
	r.mu.Lock()
	if len(r.latest) == maxEvents {
		r.latest = slices.Delete(r.latest, 0, 1)
	}
	r.latest = append(r.latest, e)
	r.mu.Unlock()
	r.log.Info("event", "kind", e.Kind, "name", e.Name, "uid", e.UID, "type", e.Type, "reason", e.Reason, "message", e.Message, "annotations", e.Annotations)
}

// events returns the latest events, oldest first.
func (r *eventRecorder) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.latest)
}
