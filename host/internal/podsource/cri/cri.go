// Package cri is the pod source of a node without a kubelet: what the container
// runtime says over CRI, joined by uid with v1.Pod manifests from a directory.
//
// It does not say which pod may be evicted (host/internal/policy) and ends none
// (host/internal/victim/cri).
package cri

import (
	"context"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/criclient"
	"github.com/evictd/evictd/host/internal/pods"
)

// listTimeout bounds a listing whose caller is more patient.
const listTimeout = 10 * time.Second

// A Source has what the runtime runs,
// joined with manifests. It is safe for concurrent use.
type Source struct {
	client    runtimeapi.RuntimeServiceClient
	manifests *Manifests

	mu sync.Mutex
	// seen are the pods that have a manifest, or had one and have something left.
	seen map[string]bool
}

// New returns the pod source that asks client for pods and looks for what
// they are in m.
func New(client runtimeapi.RuntimeServiceClient, m *Manifests) *Source {
	return &Source{client: client, manifests: m}
}

// Problems returns what is wrong with manifests. It asks no container runtime.
func (c *Source) Problems() []pods.Problem { return c.manifests.Problems() }

// Active returns the pods that run: those with a ready sandbox or a running
// container. They are in the order of their creation, then of namespace and
// name.
func (c *Source) Active(ctx context.Context) (pods.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var (
		listing    sync.WaitGroup
		listed     criclient.Listing
		errListing error
	)
	listing.Go(func() { listed, errListing = criclient.List(ctx, c.client) })
	c.manifests.refresh()
	listing.Wait()
	if errListing != nil {
		_, problems := c.manifests.last()
		return pods.Snapshot{Problems: c.manifests.told(problems)}, errListing
	}
	groups, known := group(listed)
	manifests, problems := c.manifests.of(known)
	out := pods.Snapshot{Pods: make([]pods.Pod, 0, len(groups)), Problems: problems}
	for _, g := range groups {
		out.Pods = append(out.Pods, g.pod(manifests[g.uid]))
	}
	used := allUsed(out.Problems)
	ended, unknown := c.ended(listed, groups, manifests, used)
	out.Ended, out.Complete = ended, used && !unknown && allKnown(out.Pods)
	out.Problems = c.manifests.told(out.Problems)
	return out, nil
}
