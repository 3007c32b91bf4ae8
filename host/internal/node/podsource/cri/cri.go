// Package cri finds the pods of a node without a kubelet: it joins the runtime's pods with v1.Pod
// manifests. Manifests in a directory are joined by uid, those of a kubelet's static pods by name.
//
// It does not decide which pod may be evicted (host/internal/core/policy) and kills none
// (host/internal/node/victim/cri).
package cri

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evictd/evictd/host/internal/core/pods"
	"github.com/evictd/evictd/host/internal/node/criclient"
	"github.com/evictd/evictd/host/internal/node/podsource/running"
	"github.com/evictd/evictd/shared/eviction"
)

// A Source joins the pods of the runtime with manifests. It is safe for concurrent use.
type Source struct {
	runtime   *criclient.Lister
	manifests *Manifests

	mu sync.Mutex
	// seen holds the pods that have a manifest, or had one and have something left.
	seen map[string]bool
}

// New returns a pod source that lists the pods of runtime and finds their manifests in m.
func New(runtime *criclient.Lister, m *Manifests) *Source {
	return &Source{runtime: runtime, manifests: m}
}

// Problems returns the problems of manifests. It does not call the container runtime.
func (c *Source) Problems() []pods.Problem { return c.manifests.Problems() }

// Prepare implements pods.Preparer.
func (c *Source) Prepare(ctx context.Context) { c.runtime.Prepare(ctx) }

// Active returns the running pods: those with a ready sandbox or a running container, ordered by
// creation time, namespace and name.
func (c *Source) Active(ctx context.Context) (pods.Snapshot, error) {
	var (
		listing    sync.WaitGroup
		listed     criclient.Listing
		errListing error
	)
	listing.Go(func() { listed, errListing = c.runtime.Pods(ctx) })
	c.manifests.refresh()
	listing.Wait()
	if errListing != nil {
		_, problems := c.manifests.last()
		return pods.Snapshot{Problems: c.manifests.reported(problems)}, errListing
	}
	return c.snapshot(listed, listed.Asked), nil
}

// snapshot joins pods, listed at asked, with their manifests.
func (c *Source) snapshot(listed criclient.Listing, asked time.Time) pods.Snapshot {
	for _, s := range listed.Stale {
		asked = asked.Add(-s.Age)
	}
	all := running.Of(listed.Pods)
	known := make(map[string]listedPod, len(all))
	for _, p := range all {
		known[p.UID] = listedPod{identity: identity{p.UID, p.Namespace, p.Name}, active: p.Active, static: running.Static(p.Pod)}
	}
	manifests, problems, allUsed, named := c.manifests.of(known, asked)
	out := pods.Snapshot{Pods: make([]pods.Pod, 0, len(all)), Problems: c.manifests.reported(problems), Stale: listed.Stale, Recheck: pods.Rechecker(listed.Check, func(l criclient.Listing) pods.Snapshot { return c.snapshot(l, asked) })}
	for _, p := range all {
		if !p.Active {
			continue
		}
		if m := manifests[p.UID]; m != nil {
			out.Pods = append(out.Pods, p.Known(m.api, m.row))
		} else {
			out.Pods = append(out.Pods, p.Unknown())
		}
	}
	used := allUsed && listed.Stale == nil
	ended, unknown := c.ended(listed.Pods, known, manifests, used)
	// Without pods, or with one that has no manifest, another program may run pods on the node.
	foreign := len(out.Pods) == 0 || slices.ContainsFunc(out.Pods, func(p pods.Pod) bool { return !p.HasManifest })
	out.Ended, out.Complete = ended, used && named && !unknown && !foreign
	return out
}

// ended returns the inactive pods that have a manifest, or had one and have something left in the
// runtime. unknown reports whether some pod never had one and may belong to another program, or to
// a manifest that could not be used.
func (c *Source) ended(left []*criclient.Pod, known map[string]listedPod, manifests map[string]*manifest, allUsed bool) (out []pods.Ended, unknown bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	noted, seen := make(map[string]bool, len(left)), make(map[string]bool, len(manifests))
	for _, p := range left {
		noted[p.UID] = true
		m := manifests[p.UID]
		if m == nil && !c.seen[p.UID] {
			unknown = true
			continue
		}
		seen[p.UID] = true
		if !known[p.UID].active {
			out = append(out, pods.Ended{UID: p.UID, State: stateOf(m, allUsed)})
		}
	}
	// A runtime that removes its containers at boot has nothing of a pod until it is started again.
	for _, uid := range slices.Sorted(maps.Keys(manifests)) {
		seen[uid] = true
		if !noted[uid] {
			out = append(out, pods.Ended{UID: uid, State: eviction.PodActive})
		}
	}
	c.seen = seen
	return out, unknown
}

func stateOf(m *manifest, allUsed bool) eviction.PodState {
	switch {
	case m == nil && allUsed:
		return eviction.PodDeleted
	case m != nil && m.api.Spec.RestartPolicy == v1.RestartPolicyNever:
		return eviction.PodTerminated
	default:
		return eviction.PodActive
	}
}

// allUsed reports whether each manifest is in use.
func allUsed(problems []pods.Problem) bool {
	return !slices.ContainsFunc(problems, func(p pods.Problem) bool { return !p.Used })
}
