package fakecri

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// IgnoresTerm is a Container.DiesAfter with which a container ignores SIGTERM.
const IgnoresTerm time.Duration = -1

// A Pod is a pod to run. UID is required.
type Pod struct {
	UID, Namespace, Name string
	// Unlabeled omits the labels that Kubernetes sets.
	Unlabeled bool
	// Annotations are the sandbox's.
	Annotations map[string]string
	// IP is the pod's address. Without one the pod uses the node's network.
	IP string
	// NotReady: the sandbox is down. SandboxGone: it was removed.
	NotReady, SandboxGone bool
	// SandboxImage is in the sandbox's verbose status, unless it is "".
	SandboxImage string
	// CreatedAt, unless set, is a millisecond after the previous object's.
	CreatedAt  time.Time
	Containers []Container
}

// A Container is a container to run.
type Container struct {
	// ID is generated if it is empty.
	ID      string
	Name    string
	Attempt uint32
	// Exited, Created and Lost (unknown to the runtime) select a state other than running.
	Exited, Created, Lost bool
	// DiesAfter is the time from SIGTERM to the end of the container.
	DiesAfter time.Duration
	// Exec runs commands in the container and returns their exit codes. Without it they succeed
	// at once.
	Exec func(command string) int32
	// OnTerm is called at SIGTERM, OnExit when the container ends, both before any call can
	// show it. They must not call the Server.
	OnTerm, OnExit func()
	// CreatedAt, unless set, is a millisecond after the previous object's.
	CreatedAt time.Time
	// Annotations are the container's.
	Annotations map[string]string
	// Image is the name in the spec; ImageID and ImageRef are what the runtime resolved it to.
	Image, ImageID, ImageRef string
	// ImageVolumes are the images that the container mounts.
	ImageVolumes []string
	LogPath      string
	// LayerBytes and LayerInodes are the size of the writable layer. 0 bytes means that the
	// runtime has not measured it.
	LayerBytes, LayerInodes uint64
	// LayerDir is the directory of the snapshotter, "" if the runtime does not say.
	LayerDir string
}

// Added holds the runtime's IDs of a pod.
type Added struct {
	SandboxID    string
	ContainerIDs []string
}

type sandbox struct {
	pod  *runtimeapi.PodSandbox
	spec Pod
}

type container struct {
	api  *runtimeapi.Container
	spec Container
	// exited is closed when the container has ended.
	exited chan struct{}
	// termed: SIGTERM was sent.
	termed bool
}

// Add runs a pod. Each sandbox and container is created a millisecond after the previous one.
func (s *Server) Add(p Pod) Added {
	s.mu.Lock()
	defer s.mu.Unlock()
	labels := map[string]string{
		"io.kubernetes.pod.uid": p.UID, "io.kubernetes.pod.name": p.Name, "io.kubernetes.pod.namespace": p.Namespace,
	}
	if p.Unlabeled {
		labels = nil
	}
	sb := &runtimeapi.PodSandbox{
		Id:        s.id("sandbox"),
		Metadata:  &runtimeapi.PodSandboxMetadata{Uid: p.UID, Namespace: p.Namespace, Name: p.Name},
		CreatedAt: s.created(p.CreatedAt),
		Labels:    labels, Annotations: p.Annotations,
	}
	if p.NotReady {
		sb.State = runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	if !p.SandboxGone {
		s.sandboxes = append(s.sandboxes, &sandbox{pod: sb, spec: p})
	}
	out := Added{SandboxID: sb.GetId()}
	for _, c := range p.Containers {
		api := &runtimeapi.Container{
			Id:           cmp.Or(c.ID, s.id(c.Name)),
			PodSandboxId: sb.GetId(),
			Metadata:     &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
			State:        c.state(),
			Image:        &runtimeapi.ImageSpec{Image: c.Image},
			ImageId:      c.ImageID,
			ImageRef:     c.ImageRef,
			CreatedAt:    s.created(c.CreatedAt),
			Labels:       labels,
			Annotations:  c.Annotations,
		}
		s.containers = append(s.containers, &container{api: api, spec: c, exited: make(chan struct{})})
		out.ContainerIDs = append(out.ContainerIDs, api.GetId())
	}
	s.announce()
	return out
}

// Remove removes all traces of a pod.
func (s *Server) Remove(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := map[string]bool{}
	s.sandboxes = slices.DeleteFunc(s.sandboxes, func(sb *sandbox) bool {
		if sb.spec.UID != uid {
			return false
		}
		gone[sb.pod.GetId()] = true
		return true
	})
	s.containers = slices.DeleteFunc(s.containers, func(c *container) bool { return gone[c.api.GetPodSandboxId()] })
	s.announce()
}

// Running reports whether any container of the pod runs.
func (s *Server) Running(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sb := range s.sandboxes {
		for _, c := range s.containers {
			if sb.spec.UID == uid && c.api.GetPodSandboxId() == sb.pod.GetId() && c.api.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				return true
			}
		}
	}
	return false
}

func (c Container) state() runtimeapi.ContainerState {
	switch {
	case c.Exited:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case c.Created:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	case c.Lost:
		return runtimeapi.ContainerState_CONTAINER_UNKNOWN
	default:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
}

func (s *Server) id(of string) string {
	s.nextID++
	return fmt.Sprintf("%s-%d", of, s.nextID)
}

func (s *Server) created(at time.Time) int64 {
	if !at.IsZero() {
		return at.UnixNano()
	}
	return s.tick()
}

func (s *Server) tick() int64 {
	s.now += time.Millisecond.Nanoseconds()
	return s.now
}
