package fakecri

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Method names a call of the RuntimeService, without the service.
type Method string

// The calls that the runtime answers.
const (
	Version        Method = "Version"
	ListPodSandbox Method = "ListPodSandbox"
	ListContainers Method = "ListContainers"
	StopContainer  Method = "StopContainer"
	StopPodSandbox Method = "StopPodSandbox"
	ExecSync       Method = "ExecSync"

	Status             Method = "Status"
	PodSandboxStatus   Method = "PodSandboxStatus"
	ContainerStatus    Method = "ContainerStatus"
	ListContainerStats Method = "ListContainerStats"
	RemoveContainer    Method = "RemoveContainer"
	RemovePodSandbox   Method = "RemovePodSandbox"

	ListImages  Method = "ListImages"
	ImageStatus Method = "ImageStatus"
	RemoveImage Method = "RemoveImage"
	ImageFsInfo Method = "ImageFsInfo"
)

// A Fault disturbs calls. Its parts happen in the order of the fields.
type Fault struct {
	// Delay is added before anything else happens, Until waited for if it is not nil.
	Delay time.Duration
	Until <-chan struct{}
	// Hang never answers, until the caller gives up.
	Hang bool
	// Deaf is waited for, if it is not nil, even when the caller has given up. Only with
	// a socket: else it is the caller who waits.
	Deaf <-chan struct{}
	// Die breaks all connections instead of an answer, and the socket goes. Only
	// with a socket.
	Die bool
	// Err is returned and the call has no effect.
	Err error
	// Times is the number of calls that the fault hits; 0 means all from now on.
	Times int
	// ID limits the fault to calls about one sandbox, container or image.
	ID string
}

type script struct {
	method Method
	fault  Fault
	left   int
}

// Inject has calls of a method go wrong. Of several faults for a method the
// first that still counts is used.
func (s *Server) Inject(m Method, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, &script{method: m, fault: f, left: f.Times})
}

// Heal forgets all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = nil
}

// A Call is a call that came in.
type Call struct {
	Method Method
	// ID is the sandbox, container or image that it was about.
	ID string
	// Timeout of StopContainer or ExecSync, in seconds.
	Timeout int64
	// Command is ExecSync's.
	Command string
	Time    time.Time
}

// Calls returns the calls so far, those of one method or all, in the order in
// which they came.
func (s *Server) Calls(of ...Method) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if len(of) == 0 || slices.Contains(of, c.Method) {
			out = append(out, c)
		}
	}
	return out
}

// Await waits until there were n calls of a method, or ctx ends.
func (s *Server) Await(ctx context.Context, m Method, n int) error {
	for {
		s.mu.Lock()
		changed, calls := s.changed, 0
		for _, c := range s.calls {
			if c.Method == m {
				calls++
			}
		}
		s.mu.Unlock()
		if calls >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// intercept notes a call and lets go wrong what is to, before it is answered.
func (s *Server) intercept(ctx context.Context, req any, info *grpc.UnaryServerInfo, answer grpc.UnaryHandler) (any, error) {
	c := Call{Method: Method(path.Base(info.FullMethod))}
	switch r := req.(type) {
	case *runtimeapi.StopContainerRequest:
		c.ID, c.Timeout = r.GetContainerId(), r.GetTimeout()
	case *runtimeapi.ExecSyncRequest:
		c.ID, c.Timeout, c.Command = r.GetContainerId(), r.GetTimeout(), strings.Join(r.GetCmd(), " ")
	case interface{ GetContainerId() string }:
		c.ID = r.GetContainerId()
	case interface{ GetPodSandboxId() string }:
		c.ID = r.GetPodSandboxId()
	case interface{ GetImage() *runtimeapi.ImageSpec }:
		c.ID = r.GetImage().GetImage()
	case *runtimeapi.ListContainerStatsRequest:
		c.ID = r.GetFilter().GetId()
	}
	if err := s.enter(ctx, c); err != nil {
		return nil, err
	}
	return answer(ctx, req)
}

func (s *Server) enter(ctx context.Context, c Call) error {
	c.Time = time.Now()
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.announce()
	f, p := s.faultFor(c), s.process
	s.mu.Unlock()
	if f.Delay > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(f.Delay):
		}
	}
	if f.Until != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.Until:
		}
	}
	if f.Deaf != nil {
		<-f.Deaf
	}
	if f.Die {
		// Stopping waits for this very handler, which waits for its connection
		// to break.
		go s.end(p)
	}
	if f.Hang || f.Die {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Err
}

// faultFor uses up a fault. The caller holds the lock.
func (s *Server) faultFor(c Call) Fault {
	for i, sc := range s.scripts {
		if sc.method != c.Method || sc.fault.ID != "" && sc.fault.ID != c.ID {
			continue
		}
		if sc.fault.Times > 0 {
			sc.left--
			if sc.left == 0 {
				s.scripts = slices.Delete(s.scripts, i, i+1)
			}
		}
		return sc.fault
	}
	return Fault{}
}
