package criclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/evictd/evictd/host/internal/pods"
)

// A Listing holds the runtime's sandboxes and containers by pod. Others are left out.
type Listing struct {
	Pods []*Pod
	// Partial is why there may be more, nil if there are not.
	Partial error
}

// List is like Look, for all pods or the pods of uids.
func List(ctx context.Context, client runtimeapi.RuntimeServiceClient, uids ...string) ([]*Pod, error) {
	l, err := Look(ctx, client, func() []string { return slices.Clone(uids) })
	return l.Pods, err
}

// Look lists all sandboxes and containers in parallel. The lists include all annotations, which the
// author of a pod can make as large as the API server accepts, and containerd sends at most 16 MiB.
// If a list is larger, it lists the pods one by one: those in the other list, and those of uids.
func Look(ctx context.Context, client runtimeapi.RuntimeServiceClient, uids func() []string) (Listing, error) {
	listSandboxes := func(labels map[string]string) ([]*runtimeapi.PodSandbox, error) {
		reply, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: labels}})
		for _, s := range reply.GetItems() {
			s.Labels, s.Annotations = kept(s.GetLabels()), kept(s.GetAnnotations())
		}
		return reply.GetItems(), wrap("list pod sandboxes", err)
	}
	listContainers := func(labels map[string]string) ([]*runtimeapi.Container, error) {
		reply, err := client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: labels}})
		for _, c := range reply.GetContainers() {
			c.Labels, c.Annotations = kept(c.GetLabels()), kept(c.GetAnnotations())
		}
		return reply.GetContainers(), wrap("list containers", err)
	}
	var (
		wg                   sync.WaitGroup
		sandboxes            []*runtimeapi.PodSandbox
		errSandboxes         error
		partial, morePartial error
	)
	wg.Go(func() { sandboxes, errSandboxes = listSandboxes(nil) })
	containers, errContainers := listContainers(nil)
	wg.Wait()
	if tooLarge(errSandboxes) {
		sandboxes, partial, errSandboxes = each(uids(), byPod(nil, containers), listSandboxes)
	}
	if tooLarge(errContainers) {
		containers, morePartial, errContainers = each(uids(), byPod(sandboxes, nil), listContainers)
	}
	if cause := errors.Unwrap(errSandboxes); cause != nil && fmt.Sprint(cause) == fmt.Sprint(errors.Unwrap(errContainers)) {
		errContainers = nil // an unreachable runtime is reported once
	}
	if err := errors.Join(errSandboxes, errContainers); err != nil {
		return Listing{}, err
	}
	return Listing{Pods: byPod(sandboxes, containers), Partial: errors.Join(partial, morePartial)}, nil
}

// kept returns evictd's own keys: those for plugins come from the API server or manifests.
func kept(all map[string]string) map[string]string { return (*pods.Wanted)(nil).Kept(all) }

func wrap(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// errTooLarge does not contain the size, because it is logged whenever it changes.
var errTooLarge = errors.New("the list of all pods is larger than the container runtime sends, so that each pod is asked for: one that neither the list of containers nor a manifest names is missing")

// each lists the pods of uids and others one by one, without those whose own list is too large.
func each[T any](uids []string, others []*Pod, list func(labels map[string]string) ([]T, error)) (all []T, partial, err error) {
	for _, p := range others {
		uids = append(uids, p.UID)
	}
	partial = errTooLarge
	slices.Sort(uids)
	for _, uid := range slices.Compact(uids) {
		of, err := list(map[string]string{labelUID: uid})
		switch {
		case tooLarge(err):
			partial = errors.Join(partial, fmt.Errorf("pod %s: %w", uid, err))
		case err != nil:
			return nil, nil, err
		}
		all = append(all, of...)
	}
	return all, partial, nil
}

// tooLarge reports whether a list exceeds the limit of the runtime, or of this client.
func tooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }
