package fakecri

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxIDs returns the IDs of the existing sandboxes.
func (s *Server) SandboxIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, sb := range s.sandboxes {
		ids = append(ids, sb.pod.GetId())
	}
	return ids
}

// ContainerIDs returns the IDs of the existing containers, in any state.
func (s *Server) ContainerIDs() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, c := range s.containers {
		ids = append(ids, c.api.GetId())
	}
	return ids
}

// OnRemove makes the server call f for each container or image that is removed, before it answers.
func (s *Server) OnRemove(f func(m Method, id string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onRemove = f
}

// removed reports a removal. The caller holds the lock.
func (s *Server) removed(m Method, id string) {
	if s.onRemove != nil {
		s.onRemove(m, id)
	}
	s.announce()
}

// ContainerStatus implements CRI.
func (s *Server) ContainerStatus(_ context.Context, req *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	id := req.GetContainerId()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.container(id)
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "container %q not found", id)
	}
	out := &runtimeapi.ContainerStatus{
		Id: id, Metadata: c.api.GetMetadata(), State: c.api.GetState(), CreatedAt: c.api.GetCreatedAt(), Labels: c.api.GetLabels(),
		Image: c.api.GetImage(), ImageRef: c.api.GetImageRef(), ImageId: c.api.GetImageId(), LogPath: c.spec.LogPath,
	}
	for _, image := range c.spec.ImageVolumes {
		out.Mounts = append(out.Mounts, &runtimeapi.Mount{ContainerPath: "/volume", Image: &runtimeapi.ImageSpec{Image: image}})
	}
	return &runtimeapi.ContainerStatusResponse{Status: out}, nil
}

// ListContainerStats implements CRI, for writable layers only.
func (s *Server) ListContainerStats(_ context.Context, req *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error) {
	f := req.GetFilter()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &runtimeapi.ListContainerStatsResponse{}
	for _, c := range s.containers {
		if !fits(f.GetId(), c.api.GetId()) || !fits(f.GetPodSandboxId(), c.api.GetPodSandboxId()) {
			continue
		}
		stats := &runtimeapi.ContainerStats{
			Attributes:    &runtimeapi.ContainerAttributes{Id: c.api.GetId(), Metadata: c.api.GetMetadata(), Labels: c.api.GetLabels()},
			WritableLayer: &runtimeapi.FilesystemUsage{UsedBytes: &runtimeapi.UInt64Value{}, InodesUsed: &runtimeapi.UInt64Value{}},
		}
		if c.spec.LayerDir != "" {
			stats.WritableLayer.FsId = &runtimeapi.FilesystemIdentifier{Mountpoint: c.spec.LayerDir}
		}
		if c.spec.LayerBytes > 0 {
			stats.WritableLayer.Timestamp = s.now
			stats.WritableLayer.UsedBytes.Value, stats.WritableLayer.InodesUsed.Value = c.spec.LayerBytes, c.spec.LayerInodes
		}
		out.Stats = append(out.Stats, stats)
	}
	return out, nil
}

// RemoveContainer implements CRI: it kills a running container first; a missing one is no error.
func (s *Server) RemoveContainer(_ context.Context, req *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	id := req.GetContainerId()
	s.mu.Lock()
	c := s.container(id)
	s.mu.Unlock()
	if c != nil {
		s.exit(c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.containers = slices.DeleteFunc(s.containers, func(c *container) bool { return c.api.GetId() == id })
	s.removed(RemoveContainer, id)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// RemovePodSandbox implements CRI: it also removes the sandbox's containers; a missing sandbox is
// no error.
func (s *Server) RemovePodSandbox(_ context.Context, req *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	id := req.GetPodSandboxId()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sandboxes = slices.DeleteFunc(s.sandboxes, func(sb *sandbox) bool { return sb.pod.GetId() == id })
	s.containers = slices.DeleteFunc(s.containers, func(c *container) bool { return c.api.GetPodSandboxId() == id })
	s.announce()
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}
