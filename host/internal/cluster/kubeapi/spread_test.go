package kubeapi

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"golang.org/x/sys/unix"
)

const fleetSize = 200

// A fleet watches one API server.
type fleet struct {
	mu      sync.Mutex
	answer  error // of each request
	once    error // of the next watch of each
	refused map[int]bool
	watches []*watch.FakeWatcher
	began   time.Time
	watched []time.Duration // times of watches since began
	lists   []time.Duration
}

func (f *fleet) run(ctx context.Context, n int) {
	requests := Spread(cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.lists = append(f.lists, time.Since(f.began))
			return &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}, f.answer
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if o.SendInitialEvents != nil {
				return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil) // as before Kubernetes 1.34
			}
			f.watched = append(f.watched, time.Since(f.began))
			if f.answer != nil {
				return nil, f.answer
			}
			if f.once != nil && !f.refused[n] {
				f.refused[n] = true
				return nil, f.once
			}
			w := watch.NewFake()
			f.watches = append(f.watches, w)
			return w, nil
		},
	}, func(error) {})
	cache.NewReflectorWithOptions(requests, &v1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), ReflectorOptions("pods", slog.New(slog.DiscardHandler))).RunWithContext(ctx)
}

func (f *fleet) set(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// most returns the largest number of times within one interval.
func most(times []time.Duration, interval time.Duration) int {
	bins := map[time.Duration]int{0: 0}
	for _, at := range times {
		bins[at.Truncate(interval)]++
	}
	return slices.Max(slices.Collect(maps.Values(bins)))
}

// An API server that came back had the requests of all nodes within 0.3 s, and then a list of each.
func TestAFleetResumesItsWatchesAtRandom(t *testing.T) {
	handlers := utilruntime.ErrorHandlers
	defer func() { utilruntime.ErrorHandlers = handlers }()
	utilruntime.ErrorHandlers = nil // they wait for the time of another test
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	tooLarge := apierrors.NewTimeoutError("Too large resource version", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	for name, c := range map[string]struct {
		outage time.Duration
		during error
		once   error
		relist bool
	}{
		"it restarts":                       {},
		"it is away for 5 s":                {outage: 5 * time.Second, during: unix.ECONNREFUSED},
		"it is away for 30 s":               {outage: 30 * time.Second, during: unix.ECONNREFUSED},
		"its proxy resets connections":      {outage: 5 * time.Second, during: unix.ECONNRESET},
		"it knows no roles yet":             {outage: time.Second, during: forbidden},
		"it knows no roles for each":        {once: forbidden},
		"it has too much to do":             {outage: 5 * time.Second, during: apierrors.NewTooManyRequests("later", 1)},
		"it starts":                         {outage: 5 * time.Second, during: apierrors.NewServiceUnavailable("starting")},
		"its proxy has no server":           {outage: 5 * time.Second, during: apierrors.NewGenericServerResponse(http.StatusBadGateway, "get", schema.GroupResource{}, "", "", 0, true)},
		"the resource version is too old":   {once: apierrors.NewResourceExpired("too old resource version"), relist: true},
		"the resource version is too large": {once: tooLarge, relist: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{refused: map[int]bool{}, began: time.Now()}
				ctx, end := context.WithCancel(t.Context())
				var running sync.WaitGroup
				for n := range fleetSize {
					running.Go(func() { f.run(ctx, n) })
				}
				time.Sleep(time.Minute)
				f.set(func() {
					f.began, f.watched, f.lists, f.answer, f.once = time.Now(), nil, nil, c.during, c.once
					for _, w := range f.watches {
						w.Stop()
					}
				})
				time.Sleep(c.outage)
				f.set(func() { f.began, f.watched, f.lists, f.answer, f.watches = time.Now(), nil, nil, nil, nil })
				time.Sleep(time.Minute)
				f.set(func() {
					t.Logf("%d watches, %d lists; at most %d watches and %d lists within 100 ms", len(f.watched), len(f.lists), most(f.watched, 100*time.Millisecond), most(f.lists, 100*time.Millisecond))
					if n := max(most(f.watched, 100*time.Millisecond), most(f.lists, 100*time.Millisecond)); n > fleetSize/10 {
						t.Errorf("%d of %d nodes sent a request within 100 ms", n, fleetSize)
					}
					if len(f.watches) != fleetSize || len(f.lists) > 0 != c.relist {
						t.Errorf("%d of %d nodes watch again, after %d lists", len(f.watches), fleetSize, len(f.lists))
					}
				})
				end()
				running.Wait()
			})
		})
	}
}

// client-go sent a rejected request again after exactly Retry-After, ten times.
func TestARejectedRequestIsNotRepeatedInStep(t *testing.T) {
	s := newServer(t, func(*http.Request, []byte) (int, any) {
		status := apierrors.NewTooManyRequests("later", 0).Status()
		status.TypeMeta = typed("Status")
		return http.StatusTooManyRequests, status
	})
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "0")
		inner.ServeHTTP(w, r)
	})
	c, _ := s.client(t)
	event := &v1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "e"}}
	events := c.Events(t.Context())
	for name, request := range map[string]func(context.Context) error{
		"list pods":    func(ctx context.Context) error { _, err := c.ListPods(ctx, metav1.ListOptions{}); return err },
		"watch pods":   func(ctx context.Context) error { _, err := c.WatchPods(ctx, metav1.ListOptions{}); return err },
		"evict":        func(ctx context.Context) error { _, err := c.PatchPodStatus(ctx, "ns", "p", nil, false); return err },
		"delete":       func(ctx context.Context) error { return c.DeletePod(ctx, "ns", "p", "uid", 1) },
		"event":        func(ctx context.Context) error { return c.CreateEvent(ctx, event) },
		"node's event": func(context.Context) error { _, err := events.Create(event); return err },     //nolint:contextcheck // a record.EventSink has none
		"again":        func(context.Context) error { _, err := events.Patch(event, nil); return err }, //nolint:contextcheck // a record.EventSink has none
	} {
		s.mu.Lock()
		s.asked = nil
		s.mu.Unlock()
		if err := request(t.Context()); !apierrors.IsTooManyRequests(err) {
			t.Errorf("%s: %v", name, err)
		}
		if n := len(s.asked); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
	}
}
