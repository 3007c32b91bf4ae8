package host

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/evictd/evictd/host/internal/pods"
)

// maxEvents is how many events the status shows.
const maxEvents = 100

// Event is an event of the eviction manager, worded as the kubelet's.
type Event struct {
	Time time.Time `json:"time"`
	// Kind is "Node" or "Pod"; Name and UID say which.
	Kind string `json:"kind"`
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Type is "Normal" or "Warning".
	Type        string            `json:"type"`
	Reason      string            `json:"reason"`
	Message     string            `json:"message"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// logRecorder is the recorder of a node without an API server: events go to the
// log, and the latest to the status. It is safe for concurrent use.
type logRecorder struct {
	nodeName string
	log      *slog.Logger

	mu     sync.Mutex
	latest []Event
}

// NodeEvent implements loop.Recorder.
func (r *logRecorder) NodeEvent(eventType, reason, message string) {
	r.record(Event{Kind: "Node", Name: r.nodeName, UID: r.nodeName, Type: eventType, Reason: reason, Message: message})
}

// PodEvent implements loop.Recorder.
func (r *logRecorder) PodEvent(pod pods.Pod, eventType, reason, message string, annotations map[string]string) {
	r.record(Event{Kind: "Pod", Name: pod.String(), UID: pod.Row.UID, Type: eventType, Reason: reason, Message: message, Annotations: annotations})
}

func (r *logRecorder) record(e Event) {
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
func (r *logRecorder) events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.latest)
}
