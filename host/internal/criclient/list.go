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

// A Listing has what the runtime has, by pod. What is of no pod is left out.
type Listing struct {
	Pods []*Pod
	// Partial says why there may be more, nil if there is not.
	Partial error
}

// List does as Look for a caller that wants all pods, or the pods of uids.
func List(ctx context.Context, client runtimeapi.RuntimeServiceClient, uids ...string) ([]*Pod, error) {
	l, err := Look(ctx, client, func() []string { return slices.Clone(uids) })
	return l.Pods, err
}

// Look asks for all sandboxes and containers at the same time. The lists have all
// annotations, which the author of a pod can make as large as the API server takes them, and
// containerd sends 16 MiB at most. A list that is larger is asked for pod by pod: those that
// the other list names, and those of uids.
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
		errContainers = nil // a runtime that is away is reported once
	}
	if err := errors.Join(errSandboxes, errContainers); err != nil {
		return Listing{}, err
	}
	return Listing{Pods: byPod(sandboxes, containers), Partial: errors.Join(partial, morePartial)}, nil
}

// kept has what evictd reads itself: what plugins want is what the API server or a manifest says.
func kept(all map[string]string) map[string]string { return (*pods.Wanted)(nil).Kept(all) }

func wrap(doing string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// errTooLarge is the same for lists of any size, as it is logged when it changes.
var errTooLarge = errors.New("the list of all pods is larger than the container runtime sends, so that each pod is asked for: one that neither the list of containers nor a manifest names is missing")

// each lists what the pods of uids have, and others. Of one whose own list is too large
// nothing is known.
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

// tooLarge reports whether a list is larger than the runtime sends, or than is accepted here.
func tooLarge(err error) bool { return status.Code(err) == codes.ResourceExhausted }
