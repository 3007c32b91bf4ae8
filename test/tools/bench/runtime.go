package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A cri is a container runtime that has pods and no containers behind them: it
// answers at once, so that evictd's own time is left.
type cri struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	images

	server *grpc.Server
	served chan error

	mu      sync.Mutex
	pods    int
	stopped map[string]bool // by container and sandbox id
	// onList is called for each ListPodSandbox, onStop for each StopContainer,
	// before it is answered.
	onList, onStop func()
}

// images is an image service without images, whose filesystem is that of a directory.
type images struct {
	runtimeapi.UnimplementedImageServiceServer

	dir string
}

func (i images) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	fs := &runtimeapi.FilesystemUsage{FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: i.dir}, Timestamp: time.Now().UnixNano()}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{fs}}, nil
}

func (i images) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{}, nil
}

// serveCRI listens on a socket until close.
func serveCRI(socket string, pods int) (*cri, error) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	c := &cri{images: images{dir: filepath.Dir(socket)}, server: grpc.NewServer(), served: make(chan error, 1), pods: pods, stopped: map[string]bool{}, onList: func() {}, onStop: func() {}}
	runtimeapi.RegisterRuntimeServiceServer(c.server, c)
	runtimeapi.RegisterImageServiceServer(c.server, c)
	go func() { c.served <- c.server.Serve(l) }()
	return c, nil
}

func (c *cri) close() error {
	c.server.Stop()
	if err := <-c.served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// notify sets what is called when pods are listed and containers stopped.
func (c *cri) notify(onList, onStop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onList, c.onStop = onList, onStop
}

// revive runs all pods again.
func (c *cri) revive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.stopped)
}

func (c *cri) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "bench", RuntimeVersion: "1", RuntimeApiVersion: "v1"}, nil
}

func (c *cri) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onList()
	out := &runtimeapi.ListPodSandboxResponse{}
	for i := range c.pods {
		s := c.sandbox(i)
		f := r.GetFilter()
		if f.GetId() != "" && f.GetId() != s.Id || f.GetState() != nil && f.GetState().GetState() != s.State || !hasAll(s.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Items = append(out.Items, s)
	}
	return out, nil
}

func (c *cri) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &runtimeapi.ListContainersResponse{}
	for i := range c.pods {
		container := c.container(i)
		f := r.GetFilter()
		if f.GetId() != "" && f.GetId() != container.Id || f.GetPodSandboxId() != "" && f.GetPodSandboxId() != container.PodSandboxId ||
			f.GetState() != nil && f.GetState().GetState() != container.State || !hasAll(container.Labels, f.GetLabelSelector()) {
			continue
		}
		out.Containers = append(out.Containers, container)
	}
	return out, nil
}

func hasAll(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func (c *cri) StopContainer(_ context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	c.mu.Lock()
	onStop := c.onStop
	c.mu.Unlock()
	onStop()
	c.stop(r.GetContainerId())
	return &runtimeapi.StopContainerResponse{}, nil
}

func (c *cri) StopPodSandbox(_ context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	c.stop(r.GetPodSandboxId())
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (c *cri) stop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped[id] = true
}

// createdAt is in the order of the pods' numbers.
func createdAt(i int) int64 {
	return time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC).UnixNano()
}

func labels(i int) map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name": podName(i), "io.kubernetes.pod.namespace": namespace, "io.kubernetes.pod.uid": podUID(i),
	}
}

func (c *cri) sandbox(i int) *runtimeapi.PodSandbox {
	s := &runtimeapi.PodSandbox{
		Id: sandboxID(i), CreatedAt: createdAt(i), Labels: labels(i),
		Metadata: &runtimeapi.PodSandboxMetadata{Name: podName(i), Namespace: namespace, Uid: podUID(i)},
	}
	if c.stopped[s.Id] {
		s.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return s
}

func (c *cri) container(i int) *runtimeapi.Container {
	out := &runtimeapi.Container{
		Id: containerID(i), PodSandboxId: sandboxID(i), CreatedAt: createdAt(i), Labels: labels(i),
		Metadata: &runtimeapi.ContainerMetadata{Name: containerName},
		Image:    &runtimeapi.ImageSpec{Image: "bench"}, ImageRef: "bench",
		State: runtimeapi.ContainerState_CONTAINER_RUNNING,
	}
	out.Labels["io.kubernetes.container.name"] = containerName
	if c.stopped[out.Id] {
		out.State = runtimeapi.ContainerState_CONTAINER_EXITED
	}
	return out
}
