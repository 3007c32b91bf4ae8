package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/decision"
	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/podsource/pruned"
	"github.com/evictd/evictd/host/internal/node/podsource/running"
	"github.com/evictd/evictd/shared/eviction"
)

// An entry is a pod with its row. It is immutable.
type entry struct {
	api *v1.Pod
	row eviction.Pod
	// noted: its eviction was noted.
	noted bool
}

func (e *entry) state() eviction.PodState {
	switch e.api.Status.Phase {
	case v1.PodFailed, v1.PodSucceeded:
		return eviction.PodTerminated
	default:
		return eviction.PodActive
	}
}

// known holds the pods received from the API server. The reflector writes pods to it, and nothing else.
type known struct {
	rules pods.Rules
	// first is closed after the first listing, whether it succeeded, was refused or failed.
	first chan struct{}
	once  sync.Once

	mu        sync.Mutex
	pods      map[string]*entry // by namespace/name
	freshness freshness
	// changed signals that the pods must be saved.
	changed chan struct{}
	// again cancels the watch, so that it starts over with a list.
	again context.CancelFunc
	// record receives evictions (Source.Follow), nil without a receiver.
	record func([]*decision.Decision)
}

func newKnown(rules pods.Rules) *known {
	return &known{rules: rules, first: make(chan struct{}), pods: map[string]*entry{}, freshness: freshness{trouble: pods.ErrNeverListed}, changed: make(chan struct{}, 1)}
}

// freshness is the state of the watch on the API server.
type freshness struct {
	// listed: all pods were received, except for changes since trouble. loaded: the pods are those
	// that a former evictd saved, until listed.
	listed, loaded bool
	// trouble is the last error of the watch, since is when it began to fail.
	trouble error
	since   time.Time
	// behind: the watch was interrupted, and changes from that time may still arrive.
	behind bool
}

// asked records the result of a request.
func (n *freshness) asked(err error, now time.Time) {
	switch {
	case err != nil:
		if n.since.IsZero() {
			n.since = now
		}
		n.trouble, n.behind = err, true
	case n.listed:
		n.trouble, n.since = nil, time.Time{}
	}
}

// stale returns how old the pods are while the API server is away.
func (n *freshness) stale(now time.Time) []pods.Stale {
	if n.since.IsZero() || n.trouble == nil {
		return nil
	}
	return []pods.Stale{{Input: pods.APIServer, Age: now.Sub(n.since), Err: n.trouble}}
}

// fresh reports whether an unknown pod does not exist.
func (n *freshness) fresh() bool { return n.listed && n.trouble == nil && !n.behind }

func (n *freshness) problems() []pods.Problem {
	switch {
	case n.trouble == nil:
		return nil
	case n.loaded:
		return []pods.Problem{{File: pods.APIServer, Err: fmt.Errorf("has not listed the node's pods yet, those that a former evictd knew count: %w", n.trouble), Used: true}}
	case n.since.IsZero():
		return []pods.Problem{{File: pods.APIServer, Err: n.trouble}}
	case !n.listed:
		return []pods.Problem{{File: pods.APIServer, Err: fmt.Errorf("%w: %w", pods.ErrNeverListed, n.trouble)}}
	default:
		err := fmt.Errorf("is away since %s, the pods known then count: %w", n.since.UTC().Format(time.RFC3339), n.trouble)
		return []pods.Problem{{File: pods.APIServer, Err: err, Used: true}}
	}
}

// A view holds the pods known at one time.
type view struct {
	byUID    map[string]*entry
	mirrors  map[string]*entry // of static pods, by the uid under which the kubelet runs them
	order    []string          // uids in byUID except mirrors
	problems []pods.Problem
	stale    []pods.Stale
	// fresh: an unknown pod does not exist.
	fresh bool
}

func (k *known) view() *view {
	k.mu.Lock()
	defer k.mu.Unlock()
	v := &view{
		byUID: make(map[string]*entry, len(k.pods)), mirrors: map[string]*entry{}, problems: k.allProblems(), stale: k.freshness.stale(time.Now()),
		fresh: k.freshness.fresh(),
	}
	for _, key := range slices.Sorted(maps.Keys(k.pods)) {
		e := k.pods[key]
		if hash, mirror := e.api.Annotations[running.AnnotationMirror]; mirror {
			v.mirrors[hash] = e
		} else {
			v.order = append(v.order, e.row.UID)
		}
		v.byUID[e.row.UID] = e
	}
	return v
}

func (k *known) all() []*v1.Pod {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*v1.Pod, 0, len(k.pods))
	for _, key := range slices.Sorted(maps.Keys(k.pods)) {
		out = append(out, k.pods[key].api)
	}
	return out
}

// renew makes the API server list the pods again if plugins want to see more of them.
func (k *known) renew() {
	if !k.rules.Wanted.Grown() {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.again != nil {
		k.again()
	}
}

// begin returns the context of the watch until the next list is needed.
func (k *known) begin(ctx context.Context) context.Context {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, k.again = context.WithCancel(ctx)
	return ctx
}

// of returns the entry of a running pod. The author of a pod can declare it a mirror of another
// one, so only static pods, as reported by the kubelet, are looked up among the mirrors.
func (v *view) of(p *running.Pod) *entry {
	switch e := v.byUID[p.UID]; {
	case e != nil && p.SandboxUnknown: // it has no mark of the kubelet's, which overwrites that of the author
		own := *e
		own.api = running.FromAPI(e.api)
		return &own
	case e != nil || !running.Static(p.Pod):
		return e
	}
	mirror := v.mirrors[p.UID]
	if mirror == nil || mirror.api.Name != p.Name || mirror.api.Namespace != p.Namespace {
		return nil
	}
	own := *mirror
	own.row.UID = p.UID // by which its cgroup and its directory are found
	return &own
}

func (k *known) asked(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.freshness.asked(err, time.Now())
	if err != nil {
		k.answered()
	}
}

// answered ends the wait for the first answer.
func (k *known) answered() { k.once.Do(func() { close(k.first) }) }

func (k *known) problems() []pods.Problem {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.allProblems()
}

// allProblems returns those of the API server and, of some pods, what is too much to be kept.
func (k *known) allProblems() []pods.Problem {
	all, cut := k.freshness.problems(), 0
	for _, key := range slices.Sorted(maps.Keys(k.pods)) {
		text, is := k.pods[key].api.Annotations[pruned.AnnotationCut]
		if !is {
			continue
		}
		if cut++; cut <= maxCut {
			all = append(all, pods.Problem{File: "pod " + key, Err: errors.New(text), Used: true})
		}
	}
	if cut > maxCut {
		all = append(all, pods.Problem{File: pods.APIServer, Err: fmt.Errorf("has %d more pods of which a part counts", cut-maxCut), Used: true})
	}
	return all
}

// maxCut bounds the problems of pods.
const maxCut = 10

// Add implements cache.ReflectorStore.
func (k *known) Add(object any) error { return k.Update(object) }

// Update implements cache.ReflectorStore.
func (k *known) Update(object any) error {
	pod := object.(*v1.Pod)
	e := k.enter(pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(false, e)
	k.pods[key(pod)] = e
	k.hasChanged()
	return nil
}

// Delete implements cache.ReflectorStore.
func (k *known) Delete(object any) error {
	pod := object.(*v1.Pod)
	e := k.enter(pod)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(true, e)
	delete(k.pods, key(pod))
	k.hasChanged()
	return nil
}

// Replace implements cache.ReflectorStore.
func (k *known) Replace(objects []any, _ string) error {
	all := make(map[string]*entry, len(objects))
	for _, object := range objects {
		pod := object.(*v1.Pod)
		all[key(pod)] = k.enter(pod)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.note(false, slices.Collect(maps.Values(all))...)
	k.pods, k.freshness = all, freshness{listed: true}
	k.hasChanged()
	k.answered()
	return nil
}

// note records evictions by other programs, each once, before the pods are entered or deleted.
func (k *known) note(deleted bool, all ...*entry) {
	var found []*decision.Decision
	for _, e := range all {
		if former := k.pods[key(e.api)]; former != nil && former.row.UID == e.row.UID && former.noted {
			e.noted = true
		} else if d := e.byOther(deleted); d != nil {
			e.noted, found = true, append(found, d)
		}
	}
	if len(found) > 0 && k.record != nil {
		k.record(found)
	}
}

func (k *known) hasChanged() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Bookmark implements cache.ReflectorBookmarkStore: all earlier changes have been received.
func (k *known) Bookmark(string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.freshness.behind = false
	return nil
}

// Resync implements cache.ReflectorStore; there is nothing to resynchronize.
func (k *known) Resync() error { return nil }

// enter copies the pod itself: one of a list would keep the others in memory.
func (k *known) enter(pod *v1.Pod) *entry {
	own := allocated(pod)
	return &entry{api: own, row: k.rules.Row(own, nil)}
}

func key(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }
