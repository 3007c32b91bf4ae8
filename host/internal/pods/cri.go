package pods

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// listTimeout bounds a listing whose caller is more patient.
const listTimeout = 10 * time.Second

// CRI is the pod source of a node without a kubelet: what the runtime runs,
// joined with manifests. It is safe for concurrent use.
type CRI struct {
	client    runtimeapi.RuntimeServiceClient
	manifests *Manifests

	mu sync.Mutex
	// seen are the pods that have a manifest, or had one and have something left.
	seen map[string]bool
}

// NewCRI returns the pod source that asks client for pods and looks for what
// they are in m.
func NewCRI(client runtimeapi.RuntimeServiceClient, m *Manifests) *CRI {
	return &CRI{client: client, manifests: m}
}

// Active returns the pods that run: those with a ready sandbox or a running
// container. They are in the order of their creation, then of namespace and
// name.
func (c *CRI) Active(ctx context.Context) (Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var (
		listing    sync.WaitGroup
		listed     Listing
		errListing error
	)
	listing.Go(func() { listed, errListing = List(ctx, c.client) })
	manifests, problems := c.manifests.list()
	listing.Wait()
	if errListing != nil {
		return Snapshot{Problems: c.manifests.told(problems)}, errListing
	}
	groups := group(listed)
	out := Snapshot{Pods: make([]Pod, 0, len(groups)), Problems: problems}
	for _, g := range groups {
		pod, problem := g.pod(manifests[g.uid])
		if problem != nil {
			out.Problems = append(out.Problems, *problem)
		}
		out.Pods = append(out.Pods, pod)
	}
	used := allUsed(out.Problems)
	ended, strangers := c.ended(listed, groups, manifests, used)
	out.Ended, out.Complete = ended, used && !strangers && allKnown(out.Pods)
	out.Problems = c.manifests.told(out.Problems)
	return out, nil
}

// A Listing is all sandboxes and containers that the runtime knows.
type Listing struct {
	Sandboxes  []*runtimeapi.PodSandbox
	Containers []*runtimeapi.Container
}

// List asks for sandboxes and containers at the same time.
func List(ctx context.Context, client runtimeapi.RuntimeServiceClient) (Listing, error) {
	var (
		wg            sync.WaitGroup
		sandboxes     *runtimeapi.ListPodSandboxResponse
		errSandboxes  error
		errContainers error
	)
	wg.Go(func() {
		sandboxes, errSandboxes = client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
		if errSandboxes != nil {
			errSandboxes = fmt.Errorf("list pod sandboxes: %w", errSandboxes)
		}
	})
	containers, errContainers := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if errContainers != nil {
		errContainers = fmt.Errorf("list containers: %w", errContainers)
	}
	wg.Wait()
	if err := errors.Join(errSandboxes, errContainers); err != nil {
		return Listing{}, err
	}
	return Listing{Sandboxes: sandboxes.GetItems(), Containers: containers.GetContainers()}, nil
}
