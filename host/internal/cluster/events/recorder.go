// Package events sends the events of the eviction manager to the API server. Like the kubelet it
// aggregates similar events and limits the number per object.
//
// The log and the status have the events anyway.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// component is the source of the events.
const component = "evictd"

// A Recorder sends events. Its methods may be called concurrently and never block: unsent events
// are kept for some time (1000 events, each tried for two minutes), and then dropped.
type Recorder struct {
	node     v1.ObjectReference
	recorder record.EventRecorder
	lost     *lost
	flushed  chan struct{}
	// made and taken count events: the broadcaster does not report those it drops for lack of room.
	made, taken atomic.Uint64
}

// maxWaiting is the length of the broadcaster's queue.
const maxWaiting = 1000

// New returns a recorder of a node that sends to sink until ctx ends.
func New(ctx context.Context, sink record.EventSink, nodeName string, log *slog.Logger) *Recorder {
	l := &lost{Handler: log.Handler()}
	logger := logr.FromSlogHandler(l)
	r := &Recorder{
		// Like the kubelet's reference to its node: the uid is the name.
		node:    v1.ObjectReference{Kind: "Node", Name: nodeName, UID: types.UID(nodeName)},
		lost:    l,
		flushed: make(chan struct{}, 1),
	}
	b := record.NewBroadcaster(
		record.WithContext(klog.NewContext(ctx, logger)),
		record.WithCorrelatorOptions(record.CorrelatorOptions{KeyFunc: func(e *v1.Event) (string, string) {
			r.taken.Add(1)
			return record.EventAggregatorByReasonFunc(e)
		}}),
	)
	b.StartRecordingToSink(patient{sink, r.flushed})
	r.recorder = b.NewRecorder(runtime.NewScheme(), v1.EventSource{Component: component, Host: nodeName}).WithLogger(logger)
	return r
}

// NodeEvent sends an event about the node.
func (r *Recorder) NodeEvent(eventType, reason, message string) {
	r.Event(r.node, nil, eventType, reason, message)
}

// PodEvent sends an event about a pod.
func (r *Recorder) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	r.Event(v1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
	}, annotations, eventType, reason, message)
}

// Without is a recorder whose pod events with one reason are sent by other means.
type Without struct {
	*Recorder
	Reason string
}

// PodEvent sends an event about a pod.
func (w Without) PodEvent(pod *v1.Pod, annotations map[string]string, eventType, reason, message string) {
	if reason != w.Reason {
		w.Recorder.PodEvent(pod, annotations, eventType, reason, message)
	}
}

// Event sends an event about an object.
func (r *Recorder) Event(about v1.ObjectReference, annotations map[string]string, eventType, reason, message string) {
	if r.made.Load()-r.taken.Load() >= maxWaiting {
		r.lost.count("too many events wait to be sent", slog.String("name", about.Name), slog.String("event", reason))
		return
	}
	r.made.Add(1)
	r.recorder.AnnotatedEventf(&about, annotations, eventType, reason, "%s", message)
}

// Flush returns when all earlier events are sent or lost, or when ctx ends. It may be called once.
func (r *Recorder) Flush(ctx context.Context) {
	// Events are sent in order.
	r.recorder.Event(&v1.ObjectReference{Kind: flush}, v1.EventTypeNormal, flush, "")
	select {
	case <-r.flushed:
	case <-ctx.Done():
		slog.New(r.lost.Handler).Error("the API server did not take all events", "waiting", r.made.Load()-r.taken.Load())
	}
}

// Lost returns the number of events that never reached the API server.
func (r *Recorder) Lost() uint64 { return r.lost.n.Load() }

// flush is the reason of a marker event, which is not sent.
const flush = "Flush"

// patient is a sink that retries while its server is unreachable: the broadcaster retries only
// errors that are not server responses.
type patient struct {
	record.EventSink
	flushed chan<- struct{}
}

// Create implements record.EventSink.
func (p patient) Create(e *v1.Event) (*v1.Event, error) {
	if e.InvolvedObject.Kind == flush {
		p.flushed <- struct{}{}
		return e, nil
	}
	return later(p.EventSink.Create(e))
}

// Update implements record.EventSink.
func (p patient) Update(e *v1.Event) (*v1.Event, error) { return later(p.EventSink.Update(e)) }

// Patch implements record.EventSink.
func (p patient) Patch(former *v1.Event, data []byte) (*v1.Event, error) {
	return later(p.EventSink.Patch(former, data))
}

// later hides an error response that may succeed later.
func later(e *v1.Event, err error) (*v1.Event, error) {
	var s apierrors.APIStatus
	if errors.As(err, &s) {
		switch code := s.Status().Code; {
		case code >= http.StatusInternalServerError, code == http.StatusTooManyRequests, code == http.StatusUnauthorized:
			return e, fmt.Errorf("send event: %w", err)
		}
	}
	return e, err
}

// lost is the log of a broadcaster, which reports dropped events there; other lines are ignored.
type lost struct {
	slog.Handler
	n atomic.Uint64
}

func (l *lost) count(reason string, attrs ...any) {
	attrs = append(attrs, "reason", reason, "lost", l.n.Add(1))
	slog.New(l.Handler).Error("event is lost", attrs...)
}

// Handle implements slog.Handler.
func (l *lost) Handle(_ context.Context, r slog.Record) error {
	for _, end := range []string{"retry limit exceeded", "will not retry", "too many queued events", "broadcaster is shut down"} {
		if r.Level < slog.LevelError || !strings.Contains(r.Message, end) {
			continue
		}
		var attrs []any
		r.Attrs(func(a slog.Attr) bool {
			if e, ok := a.Value.Any().(*v1.Event); ok {
				attrs = append(attrs, "name", e.InvolvedObject.Name, "event", e.Reason)
			} else if a.Key == "err" {
				attrs = append(attrs, "error", a.Value.Any())
			}
			return true
		})
		l.count(r.Message, attrs...)
		return nil
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (l *lost) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l *lost) WithGroup(string) slog.Handler { return l }
