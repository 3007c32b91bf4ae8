// Package kubernetes finds the pods of a cluster node: it watches them in the API server and joins
// them with the running pods of the container runtime.
//
// While the API server is unreachable the last known pods count, and the runtime still reports
// which run. The package does not decide which pod may be evicted (host/internal/core/policy) and kills
// none (host/internal/core/victim).
package kubernetes

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/evictd/evictd/host/internal/cluster/kubeapi"
	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/podsource/running"
	"github.com/evictd/evictd/shared/eviction"
)

// firstTimeout bounds the wait for the first answer of the API server.
const firstTimeout = time.Second

// API lists and watches the node's pods; kubeapi.Client implements it.
type API interface {
	ListPods(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	WatchPods(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// A Source lists the pods of the node. It is safe for concurrent use.
type Source struct {
	api     API
	runtime *criclient.Lister
	known   *known
	store   Store
}

// New returns a pod source that joins the running pods of runtime with those of api, once Run is
// called. Until api answers it uses the pods in store. The error says why these could not be
// loaded; the source works without them.
func New(api API, runtime *criclient.Lister, rules pods.Rules, store Store) (*Source, error) {
	s := &Source{api: api, runtime: runtime, known: newKnown(rules), store: store}
	return s, s.known.load(store)
}

// Follow makes Run call record, which must not block, with the evictions of pods, once for each pod. They
// may be evictd's own. It must be called before Run.
func (s *Source) Follow(record func([]*decision.Decision)) { s.known.record = record }

// Run watches the API server until ctx ends: one request every five to ten minutes while nothing
// changes, retried as kubeapi.ReflectorOptions says.
func (s *Source) Run(ctx context.Context, log *slog.Logger) {
	var saving sync.WaitGroup
	defer saving.Wait()
	saving.Go(func() { s.save(ctx, log) })
	for ctx.Err() == nil {
		cache.NewReflectorWithOptions(s.listerWatcher(), &v1.Pod{}, s.known, kubeapi.ReflectorOptions("pods", log)).RunWithContext(s.known.begin(ctx))
	}
}

// listerWatcher records the result of each request.
func (s *Source) listerWatcher() *cache.ListWatch {
	return kubeapi.Spread(cache.ListWatch{ListWithContextFunc: s.api.ListPods, WatchFuncWithContext: s.api.WatchPods}, s.known.asked)
}

// Problems returns why the pods may be outdated.
func (s *Source) Problems() []pods.Problem {
	s.known.renew()
	return s.known.problems()
}

// Pods returns the node's pods as last received from the API server, without fields that no
// decision depends on. The caller must not modify them. It does not block.
func (s *Source) Pods() []*v1.Pod { return s.known.all() }

// Listed returns Pods once the API server has listed them. Before that err is the failure of the last
// request, nil if none has failed.
func (s *Source) Listed() (all []*v1.Pod, listed bool, err error) {
	s.known.mu.Lock()
	is := s.known.freshness
	s.known.mu.Unlock()
	switch {
	case is.listed:
		return s.Pods(), true, nil
	case !is.since.IsZero():
		err = is.trouble
	}
	return nil, false, err
}

// Prepare implements pods.Preparer.
func (s *Source) Prepare(ctx context.Context) { s.runtime.Prepare(ctx) }

// Active returns the running pods: those with a ready sandbox or a running container, ordered by
// creation time, namespace and name.
func (s *Source) Active(ctx context.Context) (pods.Snapshot, error) {
	s.known.renew()
	listed, err := s.runtime.Pods(ctx)
	if err != nil {
		return pods.Snapshot{Problems: s.Problems()}, err
	}
	s.awaitFirst(ctx)
	return s.snapshot(listed), nil
}

// snapshot joins listed pods with those of the API server.
func (s *Source) snapshot(listed criclient.Listing) pods.Snapshot {
	all := running.Of(listed.Pods)
	view := s.known.view()
	view.fresh = view.fresh && listed.Stale == nil
	out := pods.Snapshot{
		Pods: make([]pods.Pod, 0, len(all)), Problems: view.problems, Stale: append(listed.Stale, view.stale...), Complete: view.fresh,
		Recheck: pods.Rechecker(listed.Check, s.snapshot),
	}
	runs := make(map[string]bool, len(all))
	for _, p := range all {
		e := view.of(p)
		runs[p.UID] = p.Active
		switch {
		case p.Active && e != nil:
			out.Pods = append(out.Pods, p.Known(e.api, e.row))
		case p.Active:
			out.Pods = append(out.Pods, p.Unknown())
			out.Complete = false
		}
	}
	out.Ended = view.ended(listed.Pods, runs)
	return out
}

// awaitFirst waits for the first answer of the API server: the first pass should know the pods.
func (s *Source) awaitFirst(ctx context.Context) {
	late := time.NewTimer(firstTimeout)
	defer late.Stop()
	select {
	case <-s.known.first:
	case <-late.C: // the next passes do not wait for it
		s.known.answered()
	case <-ctx.Done():
	}
}

// ended returns the pods that do not run and have something left in the runtime, or may be started.
func (v *view) ended(listed []*criclient.Pod, runs map[string]bool) (out []pods.Ended) {
	noted := make(map[string]bool, len(listed))
	for _, p := range listed {
		noted[p.UID] = true
		if runs[p.UID] {
			continue
		}
		switch e := v.byUID[p.UID]; {
		case e != nil:
			out = append(out, pods.Ended{UID: p.UID, State: e.state()})
		case v.fresh && !running.Static(p):
			out = append(out, pods.Ended{UID: p.UID, State: eviction.PodDeleted})
		}
	}
	for _, uid := range v.order {
		if !noted[uid] {
			out = append(out, pods.Ended{UID: uid, State: v.byUID[uid].state()})
		}
	}
	return out
}
