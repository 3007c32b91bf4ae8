package kubernetes

import (
	"context"
	"encoding/json"
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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/podsource/pruned"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/fakes/fakecri"
)

// known source has listed these pods.
func sourceOf(s *fakecri.Server, all ...*v1.Pod) *Source {
	source, err := New(nil, criclient.NewLister(s.Client(), nil), pods.Rules{PodLevelResources: true}, &store{})
	if err != nil {
		panic(err)
	}
	objects := make([]any, 0, len(all))
	for _, p := range all {
		objects = append(objects, decoded(p, nil))
	}
	if err := source.known.Replace(objects, "1"); err != nil {
		panic(err)
	}
	return source
}

// decoded returns a pod as kubeapi decodes it.
func decoded(p *v1.Pod, wanted *pods.Wanted) *v1.Pod {
	out := &v1.Pod{}
	raw, err := p.Marshal()
	if err == nil {
		_, err = pruned.Unmarshal(wanted, out, raw, nil)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// store is a run directory.
type store struct{ data []byte }

func (s *store) SavePods(data []byte) error {
	s.data = data
	return nil
}

func (s *store) LoadPods() ([]byte, error) { return s.data, nil }

// An evictd that starts while the API server is away knows the pods that the former one knew.
func TestTheLastPodsOutliveARestart(t *testing.T) {
	s, kept := fakecri.New(), &store{}
	s.Add(runs("1", "a"))
	s.Add(runs("2", "made-since"))
	first := sourceOf(s, apiPod("1", "a", func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{
			Path: "/stop", HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "secret"}},
		}}}
	}), apiPod("3", "gone-since"))
	ctx, cancel := context.WithCancel(t.Context())
	first.store = kept
	time.AfterFunc(10*time.Millisecond, cancel) // at its end it saves
	first.save(ctx, slog.New(slog.DiscardHandler))
	if len(kept.data) == 0 || strings.Contains(string(kept.data), "secret") {
		t.Fatalf("saved: %s", kept.data)
	}

	next, err := New(nil, criclient.NewLister(s.Client(), nil), pods.Rules{}, kept)
	if err != nil {
		t.Fatal(err)
	}
	next.known.asked(errors.New("connection refused"))
	got := active(t, next)
	if diff := cmp.Diff([]string{"1 ns/a", "2 ns/made-since unknown"}, summary(got)); diff != "" || got.Complete {
		t.Errorf("complete %t, %s", got.Complete, diff)
	}
	if len(got.Problems) != 1 || !got.Problems[0].Used || !strings.Contains(got.Problems[0].Err.Error(), "those that a former evictd knew count") {
		t.Errorf("problems %v", got.Problems)
	}
	if err := next.known.Replace([]any{apiPod("2", "made-since")}, "2"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 ns/a unknown", "2 ns/made-since"}, summary(active(t, next))); diff != "" {
		t.Error(diff)
	}
}

func TestSavedPodsThatCannotBeReadAreNotUsed(t *testing.T) {
	s := fakecri.New()
	s.Add(runs("1", "a"))
	for _, saved := range []string{
		"[",
		`{"items":[{"metadata":{"uid":"1"},"spec":{"overhead":{"memory":"1E-99999999"}}}]}`, // which takes minutes to parse
	} {
		source, err := New(nil, criclient.NewLister(s.Client(), nil), pods.Rules{}, &store{data: []byte(saved)})
		if err == nil || len(source.Pods()) != 0 {
			t.Errorf("%s: error %v, pods %v", saved, err, source.Pods())
		}
	}
}

func active(t *testing.T, s *Source) pods.Snapshot {
	t.Helper()
	got, err := s.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func apiPod(uid, name string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Namespace: "ns", Name: name, Annotations: map[string]string{}},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c"}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func runs(uid, name string) fakecri.Pod {
	return fakecri.Pod{UID: uid, Namespace: "ns", Name: name, Containers: []fakecri.Container{{Name: "c"}}}
}

// summary is a line for each pod that runs.
func summary(s pods.Snapshot) []string {
	out := []string{}
	for _, p := range s.Pods {
		line := p.Row.UID + " " + p.String()
		if !p.HasManifest {
			line += " unknown"
		}
		out = append(out, line)
	}
	return out
}

func TestWhatRunsIsJoinedWithWhatTheAPIServerHas(t *testing.T) {
	s := fakecri.New()
	s.Add(runs("1", "a"))
	s.Add(runs("2", "nobody-knows"))
	source := sourceOf(s, apiPod("1", "a"), apiPod("3", "not-started"), apiPod("4", "over", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }))
	got := active(t, source)
	if diff := cmp.Diff([]string{"1 ns/a", "2 ns/nobody-knows unknown"}, summary(got)); diff != "" {
		t.Error(diff)
	}
	want := []pods.Ended{{UID: "3", State: eviction.PodActive}, {UID: "4", State: eviction.PodTerminated}}
	if diff := cmp.Diff(want, got.Ended); diff != "" {
		t.Error(diff)
	}
	if got.Complete {
		t.Error("complete, although a pod runs that nobody knows")
	}
}

func TestALeftoverOfAPodThatIsGoneIsDeleted(t *testing.T) {
	s := fakecri.New()
	s.Add(runs("1", "a"))
	s.Add(fakecri.Pod{UID: "2", Namespace: "ns", Name: "gone", NotReady: true, Containers: []fakecri.Container{{Name: "c", Exited: true}}})
	source := sourceOf(s, apiPod("1", "a"))
	got := active(t, source)
	if diff := cmp.Diff([]pods.Ended{{UID: "2", State: eviction.PodDeleted}}, got.Ended); diff != "" || !got.Complete {
		t.Errorf("complete %t, %s", got.Complete, diff)
	}
	// While the API server is away, a pod that it does not know may be new.
	source.known.asked(errors.New("refused"))
	if got := active(t, source); len(got.Ended) != 0 || got.Complete {
		t.Errorf("ended %v, complete %t while the API server is away", got.Ended, got.Complete)
	}
	source.known.asked(nil)
	if got := active(t, source); len(got.Ended) != 0 || got.Complete {
		t.Errorf("ended %v, complete %t before the API server has told what happened meanwhile", got.Ended, got.Complete)
	}
	if err := source.known.Bookmark("2"); err != nil {
		t.Fatal(err)
	}
	if got := active(t, source); len(got.Ended) != 1 || !got.Complete {
		t.Errorf("ended %v, complete %t when it has", got.Ended, got.Complete)
	}
}

func TestAStaticPodIsKnownByItsMirror(t *testing.T) {
	mirrorOf := func(hash string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Annotations["kubernetes.io/config.mirror"] = hash
			p.Spec.Priority = new(int32(7))
		}
	}
	static := runs("hash", "static-node")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	s := fakecri.New()
	s.Add(static)
	s.Add(runs("victim", "victim"))
	got := active(t, sourceOf(s,
		apiPod("1", "static-node", mirrorOf("hash")),
		apiPod("2", "other", mirrorOf("victim")), // somebody calls a pod the mirror of another one
	))
	if diff := cmp.Diff([]string{"hash ns/static-node", "victim ns/victim unknown"}, summary(got)); diff != "" {
		t.Fatal(diff)
	}
	p := got.Pods[0]
	if p.Row.Priority != 7 || p.Row.Annotations["kubernetes.io/config.source"] != "file" {
		t.Errorf("priority %d, annotations %v; want those of the mirror and the source that the kubelet says", p.Row.Priority, p.Row.Annotations)
	}
}

// 16 MiB of annotations left no pod that could be evicted.
func TestLargeAnnotationsCostNoCandidate(t *testing.T) {
	s := fakecri.New()
	large := map[string]string{"a": strings.Repeat("x", 1<<20)}
	var all []*v1.Pod
	for i := range 20 {
		uid := fmt.Sprintf("p%02d", i)
		pod := runs(uid, uid)
		pod.Annotations = large
		s.Add(pod)
		all = append(all, apiPod(uid, uid))
	}
	s.Add(fakecri.Pod{UID: "begins", Namespace: "ns", Name: "begins"})
	s.Add(fakecri.Pod{UID: "hash", Namespace: "ns", Name: "static", Annotations: map[string]string{"kubernetes.io/config.source": "file"}})
	all = append(all, apiPod("begins", "begins"), apiPod("m", "static", func(p *v1.Pod) { p.Annotations["kubernetes.io/config.mirror"] = "hash" }))
	source := sourceOf(s, all...)
	source.runtime = criclient.NewLister(s.Client(), func() (map[string]func() nodefs.PodProcesses, error) {
		of := func(id string) func() nodefs.PodProcesses {
			return func() nodefs.PodProcesses { return nodefs.PodProcesses{Running: true, Containers: []string{id}} }
		}
		return map[string]func() nodefs.PodProcesses{"begins": of("pause"), "hash": of("pause-of-static")}, nil
	})
	got := active(t, source)
	var want []string
	for _, p := range all[:20] {
		want = append(want, string(p.UID)+" ns/"+p.Name)
	}
	want = append([]string{"begins ns/begins", "hash /hash unknown"}, want...) // a static pod is no candidate
	if diff := cmp.Diff(want, summary(got)); diff != "" || got.Stale == nil || got.Complete {
		t.Errorf("stale: %v, complete %t, %s", got.Stale, got.Complete, diff)
	}
}

func TestAPodThatIsResizedRequestsWhatIsAllocated(t *testing.T) {
	mi := func(n int64) v1.ResourceList {
		return v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(n<<20, resource.BinarySI)}
	}
	s := fakecri.New()
	s.Add(runs("1", "a"))
	pod := apiPod("1", "a", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests = mi(500)
		p.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "c", AllocatedResources: mi(100)}}
	})
	if got := active(t, sourceOf(s, pod)).Pods[0].Row.MemoryRequestBytes; got != 100<<20 {
		t.Errorf("requests %d bytes, want the 100 MiB that are allocated", got)
	}
	if pod.Spec.Containers[0].Resources.Requests.Memory().Value() != 500<<20 {
		t.Error("the pod that was told has been changed")
	}
}

// 651 MiB of annotations were kept, which decide nothing, and copied in each listing.
func TestOnlyTheAnnotationsThatPluginsWantAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		pod := runs("1", "a")
		pod.Annotations = map[string]string{"kubernetes.io/config.source": "api"}
		s.Add(pod)
		api := &apiServer{watches: make(chan *watch.FakeWatcher, 10)}
		api.set(nil, apiPod("1", "a", func(p *v1.Pod) {
			p.Annotations = map[string]string{"first": "f", "later": "l", "evictd.io/evicted": "e"}
			for i := range 60000 {
				p.Annotations[fmt.Sprint(i)] = "x"
			}
			p.Labels = p.Annotations
		}))
		wants := []string{"first"}
		api.wanted = &pods.Wanted{Ask: func() []string { return wants }}
		source, err := New(api, criclient.NewLister(s.Client(), nil), pods.Rules{Wanted: api.wanted}, &store{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { source.Run(ctx, slog.New(slog.DiscardHandler)) })
		for _, keys := range [][]string{{"first"}, {"first", "later"}} {
			until(t, func() bool {
				row := active(t, source).Pods[0].Row
				return row.Annotations[keys[len(keys)-1]] != "" && len(row.Annotations) == len(keys)+2 && len(row.Labels) == len(keys)+1
			})
			held, err := json.Marshal(source.Pods())
			if err != nil || len(held) > 1024 {
				t.Errorf("%d bytes are held, %v, want 1 KiB at most", len(held), err)
			}
			wants = []string{"later"} // another plugin; the former may come back
		}
		if problems := source.Problems(); len(problems) != 0 {
			t.Errorf("problems %v after the pods were listed again", problems)
		}
	})
}

// An apiServer has no watch that begins with a list, as older ones.
type apiServer struct {
	mu      sync.Mutex
	away    error
	pods    []v1.Pod
	watches chan *watch.FakeWatcher
	wanted  *pods.Wanted // of the client
}

func (a *apiServer) set(away error, all ...*v1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.away, a.pods = away, nil
	for _, p := range all {
		a.pods = append(a.pods, *p)
	}
}

func (a *apiServer) ListPods(context.Context, metav1.ListOptions) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: make([]v1.Pod, len(a.pods))}
	for i := range a.pods {
		list.Items[i] = *decoded(&a.pods[i], a.wanted)
	}
	return list, a.away
}

func (a *apiServer) WatchPods(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	a.mu.Lock()
	away := a.away
	a.mu.Unlock()
	switch {
	case options.SendInitialEvents != nil:
		return nil, apierrors.NewInvalid(schema.GroupKind{}, "", nil)
	case away != nil:
		return nil, away
	}
	w := watch.NewFake()
	select {
	case a.watches <- w:
		return w, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestPodsAreFollowedWhileTheAPIServerComesAndGoes(t *testing.T) {
	synctest.Test(t, followsTheAPIServer)
}

func followsTheAPIServer(t *testing.T) {
	s := fakecri.New()
	s.Add(runs("1", "a"))
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("node-2 may list pods of its own only"))
	api := &apiServer{watches: make(chan *watch.FakeWatcher)}
	api.set(forbidden, apiPod("1", "a"))
	source, err := New(api, criclient.NewLister(s.Client(), nil), pods.Rules{}, &store{})
	if err != nil {
		t.Fatal(err)
	}
	says := func() string {
		problems := source.Problems()
		if len(problems) != 1 {
			return ""
		}
		return problems[0].Error()
	}
	if got := active(t, source); says() == "" || got.Pods[0].HasManifest {
		t.Fatalf("%q is said before the first list, %v", says(), summary(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() { source.Run(ctx, slog.New(slog.DiscardHandler)) })
	until(t, func() bool { return strings.Contains(says(), "node-2 may list pods of its own only") })

	api.set(nil, apiPod("1", "a"))
	w := <-api.watches
	if got := active(t, source); says() != "" || !got.Pods[0].HasManifest {
		t.Fatalf("%q is said after the first list, %v", says(), summary(got))
	}
	s.Add(runs("2", "b"))
	w.Add(apiPod("2", "b"))
	until(t, func() bool { return len(active(t, source).Pods) == 2 && active(t, source).Pods[1].HasManifest })

	api.set(errors.New("connection refused"))
	w.Stop()
	until(t, func() bool { return strings.Contains(says(), "connection refused") })
	if got := active(t, source); !got.Pods[0].HasManifest || !strings.Contains(says(), "is away since") {
		t.Errorf("%q is said while it is away, and %v is known", says(), summary(got))
	}
	api.set(nil, apiPod("2", "b"))
	w = <-api.watches
	w.Delete(apiPod("1", "a"))
	until(t, func() bool { return says() == "" && !active(t, source).Pods[0].HasManifest })
	w.Error(&metav1.Status{Code: http.StatusGone, Reason: metav1.StatusReasonExpired}) // lists anew
	<-api.watches
	if got := active(t, source); !got.Pods[1].HasManifest {
		t.Errorf("%v is known after the list of a watch that had expired", summary(got))
	}
}

// A network that swallows all packets held up each pass by a second.
func TestAnAPIServerThatDoesNotAnswerIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakecri.New()
		s.Add(runs("1", "a"))
		source, err := New(nil, criclient.NewLister(s.Client(), nil), pods.Rules{}, &store{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []time.Duration{firstTimeout, 0} {
			began := time.Now()
			if got := summary(active(t, source)); len(got) != 1 || got[0] != "1 ns/a unknown" {
				t.Errorf("%v is active", got)
			}
			if took := time.Since(began); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
	})
}

// until waits for what another goroutine brings about.
func until(t *testing.T, is func() bool) {
	t.Helper()
	for range 6000 { // a minute
		synctest.Wait()
		if is() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("does not come true")
}

// What a node's pods take here: 500 as a controller writes them.
func BenchmarkKept(b *testing.B) {
	pod := apiPod("1", "a", func(p *v1.Pod) {
		for range 20 {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: "NAME", Value: strings.Repeat("v", 40)})
		}
		p.ManagedFields = []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(strings.Repeat("f", 4096))}}
	})
	k := newKnown(pods.Rules{})
	b.ReportAllocs()
	for b.Loop() {
		if err := k.Update(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func TestPodsOfWhichAPartCountsAreNamed(t *testing.T) {
	var all []*v1.Pod
	for i := range 12 {
		all = append(all, apiPod(fmt.Sprint(i), fmt.Sprintf("cart-%02d", i), func(p *v1.Pod) {
			p.Annotations["evictd.io/cut"] = "written by its owner"
			p.Spec.Volumes = make([]v1.Volume, 20000*min(i, 1)) // but for the first
		}))
	}
	problems := sourceOf(fakecri.New(), all...).Problems()
	if len(problems) != 11 || problems[0].Error() != "pod ns/cart-01: has 20000 volumes, the first 134 count (used all the same)" ||
		problems[10].Error() != "API server: has 1 more pods of which a part counts (used all the same)" {
		t.Errorf("%v", problems)
	}
}
