// Package summary fetches the kubelet's stats summary and serves it to plugins on a private
// socket. One fetch for each pass and view answers all clients with the same bytes or the same
// error, so that tokens and certificates stay in the host and all signals of a pass come from one
// sample.
//
// It does not decode summaries and knows no signals; that is the plugins' work.
//
// # Trust
//
// Plugins are not trusted: they cannot have a summary fetched more often than the host allows,
// cancel a fetch for others, or block the server with slow or many connections. The source gets its
// credentials but is not trusted otherwise: a fetch has a deadline and a maximum size.
package summary

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/ground/httpserver"
	"github.com/evictd/evictd/shared/answers"
	"github.com/evictd/evictd/shared/crisocket"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

const (
	// socketName is the socket's name in its directory.
	socketName = "summary.sock"
	// maxSocketPath is the kernel's limit, less the final zero.
	maxSocketPath = 107
	// maxConnections bounds the connections, maxPerProcess those of one process: a plugin needs
	// two, and one that opens more only displaces its own.
	maxConnections = 128
	maxPerProcess  = 16
	// maxRequestBytes bounds a request's header.
	maxRequestBytes = 4 << 10
	// requestTimeout bounds how long a client may take to send its request, writeTimeout how long
	// to read the response.
	requestTimeout = 5 * time.Second
	writeTimeout   = 10 * time.Second
	// closeTimeout bounds the wait for the source to end.
	closeTimeout = time.Second
)

// A Server serves plugins the summaries of the host's passes, as defined by sdk/summary. It is safe
// for concurrent use. A nil Server serves none: plugins then use other sources, and do not connect.
type Server struct {
	answers views
	layout  atomic.Pointer[summaryapi.Layout]
	http    *httpserver.Server
}

// Listen starts a server on a socket in dir, which must be a private directory of the caller. The
// server takes ownership of the source.
func Listen(dir string, source *Source, log *slog.Logger) (*Server, error) {
	s := &Server{answers: views{
		source: source, fetched: answers.New("summary", source.timeout, source.Fetch), begun: map[eviction.PassView]*answer{},
	}}
	l, err := listen(dir, filepath.Join(dir, socketName))
	if err != nil {
		return nil, fmt.Errorf("listen for plugins that want summaries: %w", err)
	}
	s.layout.Store(&summaryapi.Layout{})
	s.http = httpserver.New(l, http.HandlerFunc(s.handle), httpserver.Limits{
		Total: maxConnections, PerPeer: maxPerProcess, Peer: process,
		Request: requestTimeout, Answer: writeTimeout, HeaderBytes: maxRequestBytes,
	}, log)
	go func() { // until Close
		if err := s.http.Serve(); err != nil {
			log.Error("summaries are not served any more", "error", err)
		}
	}()
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
	return httpserver.ListenLocal(path) // no other user can have created it
}

// process returns the process at the other end of a connection.
func process(conn net.Conn) (string, error) {
	pid, err := crisocket.Peer(conn)
	return fmt.Sprintf("pid %d", pid), err
}

// Socket returns the path of the socket, for eviction.NodeFacts.
func (s *Server) Socket() string {
	if s == nil {
		return ""
	}
	return s.http.Addr().String()
}

// Reachable returns an error if plugins can no longer find the socket. It cannot be replaced while
// plugins use the former one.
func (s *Server) Reachable() error {
	if s == nil {
		return nil
	}
	if _, err := os.Lstat(s.Socket()); err != nil {
		return fmt.Errorf("socket of summaries is gone, plugins that start do not find it: restart evictd: %w", err)
	}
	return nil
}

// Begin starts a view of a pass: from now on clients may ask for it, and the first request triggers
// the fetch. Other views are refused, so that no plugin can fetch the view after a reclaim before
// that has run. Beginning another pass keeps only the answers of the previous one. Repeating it has
// no effect.
func (s *Server) Begin(at eviction.PassView) { s.answers.begin(at) }

// Await waits until the summary of a view has been fetched, at most until the fetch times out or
// ctx ends.
func (s *Server) Await(ctx context.Context, at eviction.PassView) { _, _ = s.answers.get(ctx, at) }

// SetLayout sets the layout of the node's filesystems in subsequent answers.
func (s *Server) SetLayout(l summaryapi.Layout) { s.layout.Store(&l) }

// Close cancels the fetches under way, informs waiting clients, and returns when the server and its
// source have ended, or ctx ends. It waits up to a second for slow clients, and another for a
// source that does not end.
func (s *Server) Close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	s.answers.close()
	s.http.End(ctx)
	ending, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := s.answers.source.Close(ending); err != nil {
		return fmt.Errorf("close summaries: %w", err)
	}
	return nil
}

// handle answers one request. Statuses other than 200 and 503 do not concern the summary.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// The server would read a body to its end, however slowly it arrives.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now())
		http.Error(w, "want a request without a body", http.StatusBadRequest)
		return
	}
	switch {
	case r.URL.Path != summaryapi.Path:
		http.Error(w, "want "+summaryapi.Path, http.StatusNotFound)
		return
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "want GET", http.StatusMethodNotAllowed)
		return
	}
	at, err := summaryapi.ParseQuery(r.URL.RawQuery)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	summary, err := s.answers.get(r.Context(), at)
	// The client is not charged for the duration of the fetch.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	switch {
	case errors.Is(err, errNotRun):
		http.Error(w, err.Error(), http.StatusNotFound)
	case errors.Is(err, errClosed), err != nil && r.Context().Err() != nil: // the host or the client goes
		http.Error(w, err.Error(), http.StatusInternalServerError)
	case err != nil:
		s.layout.Load().Write(w.Header())
		http.Error(w, summaryapi.Line(err.Error()), http.StatusServiceUnavailable)
	default:
		s.layout.Load().Write(w.Header())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(summary)))
		_, _ = w.Write(summary) // the client's loss
	}
}
