package fakecri

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Method names a call of the RuntimeService, without the service.
type Method string

// The calls that the runtime implements.
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

	RuntimeConfig Method = "RuntimeConfig"

	// Any stands for every call in Inject.
	Any Method = "*"
)

// A Fault disturbs calls. Its parts take effect in the order of the fields.
type Fault struct {
	// Delay is waited before anything else happens, then until Until is closed, if it is not nil.
	Delay time.Duration
	Until <-chan struct{}
	// Hang gives no answer until the caller's context ends.
	Hang bool
	// Deaf, if not nil, is waited for even after the caller's context has ended. Use it only with
	// a socket: otherwise the caller would wait.
	Deaf <-chan struct{}
	// Die breaks all connections instead of answering, and removes the socket. Use it only with
	// a socket.
	Die bool
	// Err is returned, and the call has no effect.
	Err error
	// Change returns what is sent instead of reply, which it may modify. EachList makes a Change.
	Change func(reply proto.Message) proto.Message
	// Times is the number of calls that the fault affects; 0 means all from now on.
	Times int
	// ID limits the fault to calls about one sandbox, container or image.
	ID string
	// Whole limits the fault to lists without a filter.
	Whole bool
}

type script struct {
	method Method
	fault  Fault
	left   int
}

// Inject makes calls of a method fail with f. If there are several faults for a method, the first
// one that is not used up counts.
func (s *Server) Inject(m Method, f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = append(s.scripts, &script{method: m, fault: f, left: f.Times})
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts = nil
}

// A Call is a call that the server has received.
type Call struct {
	Method Method
	// ID is the sandbox, container or image that the call is about.
	ID string
	// Timeout is the timeout of StopContainer or ExecSync, in seconds.
	Timeout int64
	// Command is the command of ExecSync.
	Command string
	Time    time.Time
	// Whole: it is a list without a filter.
	Whole bool
}

// Calls returns the calls so far in the order of their arrival, of the given methods or all.
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

// Stopped returns the containers that StopContainer was called for, each once: a kill whose grace period is
// shortened calls it again.
func (s *Server) Stopped() (ids []string) {
	for _, c := range s.Calls(StopContainer) {
		if !slices.Contains(ids, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids
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

// intercept records a call and applies its fault before the call is answered.
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
	c.Time = time.Now()
	c.Whole = strings.HasPrefix(string(c.Method), "List") && proto.Size(req.(proto.Message)) <= emptyFilter
	s.mu.Lock()
	s.calls = append(s.calls, c)
	s.announce()
	f, p := s.faultFor(c), s.process
	s.mu.Unlock()
	if err := s.enter(ctx, f, p); err != nil {
		return nil, err
	}
	reply, err := answer(ctx, req)
	if err == nil && f.Change != nil {
		reply = f.Change(reply.(proto.Message))
	}
	return reply, err
}

// emptyFilter is the size of a request with a filter that has no fields: tag and length.
const emptyFilter = 2

// enter applies what of a fault comes before the answer of a call to p.
func (s *Server) enter(ctx context.Context, f Fault, p *process) error {
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
		// In a goroutine: stopping waits for this handler, which waits for its connection to break.
		go s.end(p)
	}
	if f.Hang || f.Die {
		<-ctx.Done()
		return ctx.Err()
	}
	return f.Err
}

// faultFor returns the fault for a call and counts it. The caller holds the lock.
func (s *Server) faultFor(c Call) Fault {
	for i, sc := range s.scripts {
		if sc.method != c.Method && sc.method != Any || sc.fault.ID != "" && sc.fault.ID != c.ID || sc.fault.Whole && !c.Whole {
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
