package criclient

import (
	"context"
	"errors"
	"fmt"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

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

// The labels that Kubernetes puts on sandboxes and containers.
const (
	labelUID       = "io.kubernetes.pod.uid"
	LabelNamespace = "io.kubernetes.pod.namespace"
	LabelName      = "io.kubernetes.pod.name"
)

// SandboxUID is the uid of the pod that s belongs to, "" if it is nobody's.
func SandboxUID(s *runtimeapi.PodSandbox) string {
	if uid := s.GetLabels()[labelUID]; uid != "" {
		return uid
	}
	return s.GetMetadata().GetUid()
}

// ContainerUID is the uid of the pod that c belongs to; uidOfSandbox finds it
// for a container without labels.
func ContainerUID(c *runtimeapi.Container, uidOfSandbox map[string]string) string {
	if uid := c.GetLabels()[labelUID]; uid != "" {
		return uid
	}
	return uidOfSandbox[c.GetPodSandboxId()]
}

// Ready reports whether a sandbox is up.
func Ready(s *runtimeapi.PodSandbox) bool {
	return s.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY
}

// Running reports whether processes of c may live. A runtime that lost track of
// a container calls it unknown, and the kubelet takes it to be alive as well.
func Running(c *runtimeapi.Container) bool {
	return c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING ||
		c.GetState() == runtimeapi.ContainerState_CONTAINER_UNKNOWN
}

// Exited reports whether c ran and ended.
func Exited(c *runtimeapi.Container) bool {
	return c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
}
