package kubernetes_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/test/harness/stack/crossing"
	"github.com/evictd/evictd/test/suites/kubernetes/cluster"
)

// A life records what the API server has reported of one pod.
type life struct {
	// Pod is its last state, before it was gone if it is.
	Pod  *v1.Pod
	Gone bool
	// SeenAt is the time of its first report, FailedAt of its failure: CLOCK_MONOTONIC in
	// nanoseconds, 0 if it has not.
	SeenAt, FailedAt int64
	// Lost are marks of an eviction that it had and has no more.
	Lost []string
}

// A chronicle records the API server's reports of the pods of the default namespace, also of
// those that are gone.
type chronicle struct {
	mu      sync.Mutex
	lives   map[types.UID]life
	changed chan struct{} // closed and replaced with each change
}

// begin begins a chronicle, which ends with the test.
func begin(t *testing.T, c *cluster.Cluster) *chronicle {
	t.Helper()
	h := &chronicle{lives: map[types.UID]life{}, changed: make(chan struct{})}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewListWatchFromClient(c.Client.CoreV1().RESTClient(), "pods", metav1.NamespaceDefault, fields.Everything()),
		ObjectType:    &v1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { h.reported(o, false) },
			UpdateFunc: func(_, o any) { h.reported(o, false) },
			DeleteFunc: func(o any) { h.reported(o, true) },
		},
	})
	var working sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	working.Go(func() { informer.RunWithContext(ctx) })
	t.Cleanup(func() {
		cancel()
		working.Wait()
	})
	if !cache.WaitForCacheSync(soon(t).Done(), informer.HasSynced) {
		t.Fatal("the pods are not listed")
	}
	return h
}

func (h *chronicle) reported(object any, gone bool) {
	at := crossing.Now()
	if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = unknown.Obj
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	l, known := h.lives[pod.UID]
	if !known {
		l.SeenAt = at
	}
	if l.FailedAt == 0 && pod.Status.Phase == v1.PodFailed {
		l.FailedAt = at
	}
	if was := l.Pod; was != nil {
		if annotation := "evictd.io/evicted"; was.Annotations[annotation] != "" && pod.Annotations[annotation] == "" {
			l.Lost = append(l.Lost, "the annotation "+annotation)
		}
		if condition(was, v1.DisruptionTarget) != nil && condition(pod, v1.DisruptionTarget) == nil {
			l.Lost = append(l.Lost, "the condition DisruptionTarget")
		}
	}
	l.Pod, l.Gone = pod, gone
	h.lives[pod.UID] = l
	close(h.changed)
	h.changed = make(chan struct{})
}

// all are the lives of an app's pods.
func (h *chronicle) all(app string) (out []life, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lives {
		if l.Pod.Labels["app"] == app {
			out = append(out, l)
		}
	}
	return out, h.changed
}

// await waits for a pod of the app of which done is true; what says in words which.
func (h *chronicle) await(t *testing.T, app, what string, done func(life) bool) life {
	t.Helper()
	ctx := soon(t)
	for {
		all, changed := h.all(app)
		for _, l := range all {
			if done(l) {
				return l
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			var known []string
			for _, l := range all {
				known = append(known, fmt.Sprintf("%s is %s, gone %v, %q", l.Pod.Name, l.Pod.Status.Phase, l.Gone, l.Pod.Status.Message))
			}
			t.Fatalf("no pod of %s that %s: %q", app, what, known)
		}
	}
}

// awaitWaiting waits for a hog of the app that runs, while all others of the app have
// ended: they share one station.
func (h *chronicle) awaitWaiting(t *testing.T, app string) *v1.Pod {
	t.Helper()
	var only *v1.Pod
	h.await(t, app, "alone runs", func(life) bool {
		all, _ := h.all(app)
		only = nil
		for _, l := range all {
			switch {
			case l.Gone || ended(l.Pod):
			case only == nil && l.Pod.Status.Phase == v1.PodRunning && l.Pod.DeletionTimestamp == nil && ready(l.Pod):
				only = l.Pod
			default:
				only = nil
				return false
			}
		}
		return only != nil
	})
	return only
}

// is selects the pod with the uid.
func is(uid types.UID, done func(life) bool) func(life) bool {
	return func(l life) bool { return l.Pod.UID == uid && done(l) }
}

// ready reports whether all containers of a pod run and say so.
func ready(p *v1.Pod) bool {
	c := condition(p, v1.PodReady)
	return c != nil && c.Status == v1.ConditionTrue
}
