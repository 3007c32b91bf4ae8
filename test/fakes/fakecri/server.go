package fakecri

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Server is the runtime. Make it with New or Start. It is safe for concurrent
// use.
type Server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer

	mu         sync.Mutex
	process    *process // nil while it is dead
	socket     string
	changed    chan struct{} // closed and replaced with every change
	scripts    []*script
	calls      []Call
	sandboxes  []*sandbox
	containers []*container
	images     []*runtimeapi.Image
	// sandboxImage and imageFs are what the runtime reports about itself.
	sandboxImage string
	imageFs      *runtimeapi.ImageFsInfoResponse
	cgroupDriver *runtimeapi.CgroupDriver // nil if it does not report one
	onRemove     func(Method, string)
	nextID       int
	now          int64
}

// process is one life of the runtime.
type process struct {
	server *grpc.Server
	served chan struct{} // closed when the socket is gone
}

// New returns a runtime without pods that does not listen.
func New() *Server {
	return &Server{changed: make(chan struct{}), now: time.Now().UnixNano()}
}

// Start returns a runtime that listens on a new socket until the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "fakecri-")
	if err != nil {
		tb.Fatalf("make directory of fake runtime: %v", err)
	}
	s := New()
	if err := s.Listen(filepath.Join(dir, "cri.sock")); err != nil {
		tb.Fatalf("start fake runtime: %v", err)
	}
	tb.Cleanup(func() {
		s.Die()
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("remove socket of fake runtime: %v", err)
		}
	})
	return s
}

// Listen serves on a unix socket until Die.
func (s *Server) Listen(socket string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		return fmt.Errorf("listen on %s: already listening on %s", socket, s.socket)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	p := &process{server: grpc.NewServer(grpc.UnaryInterceptor(s.intercept)), served: make(chan struct{})}
	runtimeapi.RegisterRuntimeServiceServer(p.server, s)
	runtimeapi.RegisterImageServiceServer(p.server, s)
	go func() {
		defer close(p.served)
		// It ends only when the server is stopped.
		_ = p.server.Serve(l)
	}()
	s.process, s.socket = p, socket
	return nil
}

// Endpoint returns the address in the form that kubelet and evictd expect.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "unix://" + s.socket
}

// Die simulates the death of the runtime's process: connections break, calls in progress get no
// answer, the socket is gone. Pods live on.
func (s *Server) Die() {
	s.mu.Lock()
	p := s.process
	s.mu.Unlock()
	s.end(p)
}

// end ends p, but not its successor.
func (s *Server) end(p *process) {
	if p == nil {
		return
	}
	p.server.Stop()
	<-p.served
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == p {
		s.process = nil
	}
}

// Revive starts the runtime again on the same socket, with the same pods.
func (s *Server) Revive() error {
	s.Die()
	s.mu.Lock()
	socket := s.socket
	s.mu.Unlock()
	return s.Listen(socket)
}

// announce wakes callers that wait for a change. The caller holds the lock.
func (s *Server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}
