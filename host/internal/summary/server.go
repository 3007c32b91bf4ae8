package summary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/httpserver"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

const (
	// socketName is the socket's name in its directory.
	socketName = "summary.sock"
	// maxSocketPath is what the kernel takes, less the final zero.
	maxSocketPath = 107
	// maxRequestBytes is how much a request's header may have.
	maxRequestBytes = 4 << 10
	// headerTimeout is how long a client may take for its request, writeTimeout how
	// long for the answer, keepTimeout how long it may keep a connection unused.
	headerTimeout = 5 * time.Second
	writeTimeout  = 10 * time.Second
	keepTimeout   = 2 * time.Minute
	// closeTimeout is how long clients may take for their last answers, and the
	// source for its end.
	closeTimeout = time.Second
)

// A Server gives plugins the summaries of the passes that the host runs, as
// sdk/summary defines it. Its methods may be called concurrently.
type Server struct {
	answers     answers
	layout      atomic.Pointer[summaryapi.Layout]
	http        http.Server
	connections *httpserver.Connections
	log         *slog.Logger
	path        string
	served      chan struct{} // closed when nothing is accepted any more
}

// Listen starts a server on a socket in dir, which must be the caller's own
// directory that nobody else can write to or look into. The server owns the source from here on.
func Listen(dir string, source Source, log *slog.Logger) (*Server, error) {
	s := &Server{
		answers: answers{source: source},
		log:     log,
		path:    filepath.Join(dir, socketName),
		served:  make(chan struct{}),
	}
	l, err := listen(dir, s.path)
	if err != nil {
		return nil, fmt.Errorf("listen for plugins that want summaries: %w", err)
	}
	s.layout.Store(&summaryapi.Layout{})
	s.connections = httpserver.NewConnections(l, httpserver.Limits{Total: maxConnections, PerPeer: maxPerProcess, Peer: process}, log)
	s.http = http.Server{
		Handler:           http.HandlerFunc(s.handle),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       keepTimeout,
		MaxHeaderBytes:    maxRequestBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:         s.connections.Changed,
	}
	go s.serve()
	return s, nil
}

func listen(dir, path string) (net.Listener, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return nil, fmt.Errorf("%s is not a directory", dir)
	case !ok || int(owner.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s is not ours, want uid %d", dir, os.Geteuid())
	case info.Mode().Perm()&^0o711 != 0:
		return nil, fmt.Errorf("%s has mode %#o, want 0700 or 0711", dir, info.Mode().Perm())
	case len(path) > maxSocketPath:
		return nil, fmt.Errorf("%s has %d bytes, want at most %d for a socket", path, len(path), maxSocketPath)
	}
	// Nobody else can have put it there.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	// Until here the directory keeps others out.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (s *Server) serve() {
	defer close(s.served)
	if err := s.http.Serve(s.connections); !errors.Is(err, http.ErrServerClosed) {
		s.log.Error("summaries are not served any more", "error", err)
	}
}

// Socket returns the path of the socket, for eviction.NodeFacts.
func (s *Server) Socket() string { return s.path }

// Begin says that the host begins a view of a pass: from now on it may be asked
// for, and who asks first has it fetched. A view that the host has not begun is
// refused, so that no plugin can fix what came after a reclaim before there was
// one. Beginning another pass keeps the answers of the one before it, and no
// others. To begin the same again changes nothing.
func (s *Server) Begin(at eviction.PassView) { s.answers.begin(at) }

// Bytes returns what plugins get for a pass and view that has begun, and fetches
// it if nobody has asked yet. The caller must not change it.
func (s *Server) Bytes(ctx context.Context, at eviction.PassView) ([]byte, error) {
	return s.answers.get(ctx, at)
}

// SetLayout sets what answers say from now on about the node's filesystems.
func (s *Server) SetLayout(l summaryapi.Layout) { s.layout.Store(&l) }

// Close ends the fetches under way, tells those who wait for them, and returns
// when nothing is left of the server and its source, or ctx ends. It waits a
// second at most for slow clients, and another for a source that does not end.
func (s *Server) Close(ctx context.Context) error {
	s.answers.close()
	if err := s.shutdown(ctx); err != nil {
		_ = s.http.Close() // of connections that are given up
	}
	<-s.served
	s.connections.Wait()
	ending, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.answers.source.Close(ending); err != nil {
		return fmt.Errorf("close summaries: %w", err)
	}
	return nil
}

func (s *Server) shutdown(ctx context.Context) error {
	ending, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	return s.http.Shutdown(ending)
}
