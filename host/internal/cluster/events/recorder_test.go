package events

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// server keeps events, and answers an error as long as it has one.
type server struct {
	mu      sync.Mutex
	err     error
	created []*v1.Event
	patched int
}

func (s *server) Create(e *v1.Event) (*v1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.created = append(s.created, e)
	}
	return e, s.err
}

func (s *server) Update(e *v1.Event) (*v1.Event, error) { return e, errors.New("nobody updates") }

func (s *server) Patch(e *v1.Event, _ []byte) (*v1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.patched++
	}
	return e, s.err
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *server) events() []*v1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*v1.Event(nil), s.created...)
}

// story runs f with a recorder whose server is s, in a time of its own.
func story(t *testing.T, s *server, f func(r *Recorder, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var log bytes.Buffer
		f(New(ctx, s, "node-1", slog.New(slog.NewTextHandler(&log, nil))), &log)
		cancel()
		synctest.Wait()
	})
}

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: "uid-1", ResourceVersion: "7"}}

func TestEventsAreWordedAndAddressedAsTheKubelets(t *testing.T) {
	s := &server{}
	story(t, s, func(r *Recorder, _ *bytes.Buffer) {
		r.NodeEvent("Warning", "EvictionThresholdMet", "Attempting to reclaim memory")
		r.PodEvent(pod, map[string]string{"starved_resource": "memory"}, "Warning", "Evicted", "used 100%d of it")
		synctest.Wait()
	})
	created := s.events()
	if len(created) != 2 {
		t.Fatalf("%d events, want 2", len(created))
	}
	for _, e := range created {
		e.ObjectMeta.Name, e.FirstTimestamp, e.LastTimestamp = "", metav1.Time{}, metav1.Time{}
	}
	from := v1.EventSource{Component: "evictd", Host: "node-1"}
	want := []*v1.Event{{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default"},
		InvolvedObject: v1.ObjectReference{Kind: "Node", Name: "node-1", UID: "node-1"},
		Reason:         "EvictionThresholdMet", Message: "Attempting to reclaim memory", Type: "Warning", Count: 1,
		Source: from, ReportingController: "evictd", ReportingInstance: "node-1",
	}, {
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Annotations: map[string]string{"starved_resource": "memory"}},
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "cart", UID: "uid-1", ResourceVersion: "7"},
		Reason:         "Evicted", Message: "used 100%d of it", Type: "Warning", Count: 1,
		Source: from, ReportingController: "evictd", ReportingInstance: "node-1",
	}}
	if diff := cmp.Diff(want, created); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The node's event comes with every acting pass.
func TestTheSameEventAgainIsCountedNotRepeated(t *testing.T) {
	s := &server{}
	story(t, s, func(r *Recorder, _ *bytes.Buffer) {
		for range 5 {
			r.NodeEvent("Warning", "EvictionThresholdMet", "Attempting to reclaim memory")
			synctest.Wait()
		}
	})
	if len(s.events()) != 1 || s.patched != 4 {
		t.Errorf("%d events and %d patches, want 1 and 4", len(s.events()), s.patched)
	}
}

// The pods of a controller that is evicted again and again share few events, and others keep theirs.
func TestManyEvictionsOfAControllerLeaveRoomForOthers(t *testing.T) {
	about := func(name string) v1.ObjectReference {
		return v1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: "shop", Name: name, UID: types.UID("uid-" + name)}
	}
	s := &server{}
	story(t, s, func(r *Recorder, log *bytes.Buffer) {
		for i := range 5 {
			r.Event(about("calm"), nil, "Warning", "PodEvicted", fmt.Sprintf("Pod calm-%d was evicted from node node-1", i))
		}
		for i := range 300 {
			r.Event(about("wild"), nil, "Warning", "PodEvicted", fmt.Sprintf("Pod wild-%d was evicted from node node-1", i))
			synctest.Wait()
		}
		r.Event(about("last"), nil, "Warning", "PodEvicted", "Pod last-1 was evicted from node node-1")
		synctest.Wait()
		if r.Lost() != 0 {
			t.Errorf("%d lost\n%s", r.Lost(), log)
		}
	})
	of := map[string]int{}
	for _, e := range s.events() {
		of[e.InvolvedObject.Name]++
	}
	if want := map[string]int{"calm": 5, "wild": 10, "last": 1}; !cmp.Equal(of, want) || s.patched > 25 {
		t.Errorf("%v events and %d patches, want %v and 25 at most", of, s.patched, want)
	}
}

func TestEventsWaitForAnAPIServerThatIsAway(t *testing.T) {
	for name, away := range map[string]error{
		"connection refused": errors.New("dial tcp 127.0.0.1:6443: connect: connection refused"),
		"starting":           apierrors.NewServiceUnavailable("apiserver is shutting down"),
		"too many requests":  apierrors.NewTooManyRequests("slow down", 1),
		"token rotated":      apierrors.NewUnauthorized("expired"),
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{err: away}
			story(t, s, func(r *Recorder, log *bytes.Buffer) {
				began := time.Now()
				r.PodEvent(pod, nil, "Warning", "Evicted", "first")
				r.PodEvent(pod, nil, "Warning", "Preempting", "second")
				if took := time.Since(began); took != 0 {
					t.Errorf("waited %v for the API server", took)
				}
				time.Sleep(time.Minute)
				s.fail(nil)
				time.Sleep(20 * time.Second)
				if n := len(s.events()); n != 2 || r.Lost() != 0 {
					t.Errorf("%d events came, %d are lost, want 2 and none\n%s", n, r.Lost(), log)
				}
			})
		})
	}
}

func TestALostEventIsCountedAndLogged(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "", errors.New(`cannot create resource "events"`))
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		says  []string
	}{
		"no right to it":     {err: forbidden, says: []string{"Evicted", "cart", "cannot create resource"}},
		"away for very long": {err: &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusBadGateway}}, after: 3 * time.Minute, says: []string{"Evicted", "cart", "retry limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			story(t, &server{err: c.err}, func(r *Recorder, log *bytes.Buffer) {
				r.PodEvent(pod, nil, "Warning", "Evicted", "of memory")
				time.Sleep(c.after)
				synctest.Wait()
				if r.Lost() != 1 || strings.Count(log.String(), "event is lost") != 1 {
					t.Errorf("%d lost, and the log says\n%s", r.Lost(), log)
				}
				for _, want := range c.says {
					if !strings.Contains(log.String(), want) {
						t.Errorf("the log does not say %q:\n%s", want, log)
					}
				}
			})
		})
	}
}

func TestEventsBeforeTheEndAreSent(t *testing.T) {
	for name, c := range map[string]struct {
		away time.Duration
		sent int
	}{
		"a server that answers":    {0, 30},
		"one that is back in time": {15 * time.Second, 30},
		"one that stays away":      {time.Hour, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			story(t, s, func(r *Recorder, log *bytes.Buffer) {
				if c.away > 0 {
					s.fail(errors.New("connection refused"))
					time.AfterFunc(c.away, func() { s.fail(nil) })
				}
				for i := range 30 {
					other := *pod
					other.Name = fmt.Sprint("cart-", i)
					r.PodEvent(&other, nil, "Warning", "Evicted", "of memory")
				}
				ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
				defer cancel()
				r.Flush(ctx)
				if n := len(s.events()); n != c.sent || r.Lost() != 0 {
					t.Errorf("%d are sent, %d lost, want %d and none", n, r.Lost(), c.sent)
				}
				if reported := strings.Contains(log.String(), "did not take all events"); reported != (c.sent == 0) {
					t.Errorf("the log says\n%s", log)
				}
			})
		})
	}
}

func TestWhatTheBroadcasterHasNoRoomForIsCounted(t *testing.T) {
	s := &server{err: errors.New("connection refused")}
	story(t, s, func(r *Recorder, _ *bytes.Buffer) {
		for i := range maxWaiting + 11 {
			other := *pod
			other.Name = fmt.Sprint("cart-", i)
			r.PodEvent(&other, nil, "Warning", "Evicted", "of memory")
			synctest.Wait()
		}
		if n := r.Lost(); n != 10 { // one is being sent
			t.Errorf("%d lost, want 10", n)
		}
		s.fail(nil)
		time.Sleep(time.Minute)
		if n := len(s.events()); n != maxWaiting+1 {
			t.Errorf("%d came, want all others", n)
		}
	})
}
