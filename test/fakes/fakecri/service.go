package fakecri

import (
	"context"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Version implements CRI.
func (s *Server) Version(_ context.Context, _ *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "fakecri", RuntimeVersion: "1.0.0", RuntimeApiVersion: "v1"}, nil
}

// SetCgroupDriver makes the runtime report its cgroup driver, like containerd since 2.0.
func (s *Server) SetCgroupDriver(d runtimeapi.CgroupDriver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cgroupDriver = &d
}

// RuntimeConfig implements CRI.
func (s *Server) RuntimeConfig(ctx context.Context, req *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cgroupDriver == nil {
		return s.UnimplementedRuntimeServiceServer.RuntimeConfig(ctx, req)
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: *s.cgroupDriver}}, nil
}

// ListPodSandbox implements CRI.
func (s *Server) ListPodSandbox(_ context.Context, req *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, f := &runtimeapi.ListPodSandboxResponse{}, req.GetFilter()
	for _, sb := range s.sandboxes {
		if fits(f.GetId(), sb.pod.GetId()) && (f.GetState() == nil || f.GetState().GetState() == sb.pod.GetState()) &&
			selected(f.GetLabelSelector(), sb.pod.GetLabels()) {
			out.Items = append(out.Items, proto.CloneOf(sb.pod))
		}
	}
	return limited(out)
}

// maxReplyBytes is containerd's limit of a reply.
const maxReplyBytes = 16 << 20

// limited returns a reply, or containerd's error if it is too large.
func limited[T proto.Message](reply T) (T, error) {
	if n := proto.Size(reply); n > maxReplyBytes {
		var none T
		return none, status.Errorf(codes.ResourceExhausted, "grpc: trying to send message larger than max (%d vs. %d)", n, maxReplyBytes)
	}
	return reply, nil
}

// ListContainers implements CRI.
func (s *Server) ListContainers(_ context.Context, req *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, f := &runtimeapi.ListContainersResponse{}, req.GetFilter()
	for _, c := range s.containers {
		if fits(f.GetId(), c.api.GetId()) && fits(f.GetPodSandboxId(), c.api.GetPodSandboxId()) &&
			(f.GetState() == nil || f.GetState().GetState() == c.api.GetState()) && selected(f.GetLabelSelector(), c.api.GetLabels()) {
			out.Containers = append(out.Containers, proto.CloneOf(c.api))
		}
	}
	return limited(out)
}

// PodSandboxStatus implements CRI, including the pod's address.
func (s *Server) PodSandboxStatus(_ context.Context, req *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sb := range s.sandboxes {
		if sb.pod.GetId() != req.GetPodSandboxId() {
			continue
		}
		network := runtimeapi.NamespaceMode_POD
		if sb.spec.IP == "" {
			network = runtimeapi.NamespaceMode_NODE
		}
		info := map[string]string{}
		if req.GetVerbose() && sb.spec.SandboxImage != "" {
			info["info"] = `{"image": "` + sb.spec.SandboxImage + `"}`
		}
		return &runtimeapi.PodSandboxStatusResponse{Info: info, Status: &runtimeapi.PodSandboxStatus{
			Id: sb.pod.GetId(), Metadata: sb.pod.GetMetadata(), State: sb.pod.GetState(), CreatedAt: sb.pod.GetCreatedAt(),
			Network: &runtimeapi.PodSandboxNetworkStatus{Ip: sb.spec.IP},
			Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: network}}},
		}}, nil
	}
	return nil, status.Errorf(codes.NotFound, "sandbox %q not found", req.GetPodSandboxId())
}

// ExecSync implements CRI. The delay of a fault is the duration of the command.
func (s *Server) ExecSync(_ context.Context, req *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	s.mu.Lock()
	c := s.container(req.GetContainerId())
	s.mu.Unlock()
	switch {
	case c == nil:
		return nil, status.Errorf(codes.NotFound, "container %q not found", req.GetContainerId())
	case !c.alive():
		return nil, status.Errorf(codes.Unknown, "container %q is not running", req.GetContainerId())
	case c.spec.Exec == nil:
		return &runtimeapi.ExecSyncResponse{}, nil
	}
	command := strings.Join(req.GetCmd(), " ")
	code := c.spec.Exec(command)
	return &runtimeapi.ExecSyncResponse{ExitCode: code, Stderr: []byte("output of " + command)}, nil
}

// StopContainer implements CRI: SIGTERM, and SIGKILL after the timeout. As with containerd, if the
// caller's context ends first, the container has got SIGTERM and gets no SIGKILL.
func (s *Server) StopContainer(ctx context.Context, req *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	id := req.GetContainerId()
	s.mu.Lock()
	c := s.container(id)
	if c == nil {
		s.mu.Unlock()
		return nil, status.Errorf(codes.NotFound, "container %q not found", id)
	}
	if c.alive() && req.GetTimeout() > 0 {
		s.term(c)
	}
	s.mu.Unlock()
	kill := time.NewTimer(time.Duration(req.GetTimeout()) * time.Second)
	defer kill.Stop()
	if c.alive() && req.GetTimeout() > 0 {
		select {
		case <-c.exited:
			return &runtimeapi.StopContainerResponse{}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-kill.C:
		}
	}
	s.exit(c)
	return &runtimeapi.StopContainerResponse{}, nil
}

// StopPodSandbox implements CRI: it kills all running containers of the sandbox.
func (s *Server) StopPodSandbox(_ context.Context, req *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	id := req.GetPodSandboxId()
	s.mu.Lock()
	var inside []*container
	found := false
	for _, sb := range s.sandboxes {
		if sb.pod.GetId() == id {
			found = true
			sb.pod.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
		}
	}
	for _, c := range s.containers {
		if c.api.GetPodSandboxId() == id {
			inside = append(inside, c)
		}
	}
	s.announce()
	s.mu.Unlock()
	if !found {
		return nil, status.Errorf(codes.NotFound, "sandbox %q not found", id)
	}
	for _, c := range inside {
		s.exit(c)
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s *Server) container(id string) *container {
	for _, c := range s.containers {
		if c.api.GetId() == id {
			return c
		}
	}
	return nil
}

// alive reports whether the container runs. It needs no lock.
func (c *container) alive() bool {
	select {
	case <-c.exited:
		return false
	default:
		return !c.spec.Exited && !c.spec.Created
	}
}

// term sends SIGTERM once. The caller holds the lock.
func (s *Server) term(c *container) {
	if c.termed {
		return
	}
	c.termed = true
	if c.spec.OnTerm != nil {
		c.spec.OnTerm()
	}
	if c.spec.DiesAfter != IgnoresTerm {
		time.AfterFunc(c.spec.DiesAfter, func() { s.exit(c) })
	}
}

func (s *Server) exit(c *container) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.alive() {
		return
	}
	if c.spec.OnExit != nil {
		c.spec.OnExit()
	}
	c.api.State = runtimeapi.ContainerState_CONTAINER_EXITED
	close(c.exited)
	s.announce()
}

func fits(want, got string) bool { return want == "" || want == got }

func selected(want, labels map[string]string) bool {
	for k, v := range want {
		if labels[k] != v {
			return false
		}
	}
	return true
}
