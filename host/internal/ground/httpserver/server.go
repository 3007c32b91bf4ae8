// Package httpserver answers HTTP requests of any peer at a bounded cost of descriptors, memory
// and time. Other machines need TLS.
//
// It does not know what is served, nor who may read it (host/internal/cluster/access).
package httpserver

import (
	"bytes"
	"context"
	"errors"
	stdlog "log"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// headerTimeout bounds how long a client may take to send a request's header.
	headerTimeout = 5 * time.Second
	// requestTimeout, answerTimeout and maxHeaderBytes are an Endpoint's Limits.
	requestTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second
	maxHeaderBytes = 16 << 10
	// makeTimeout bounds generating a response.
	makeTimeout = 10 * time.Second
	// endTimeout bounds reading the last responses at shutdown.
	endTimeout = time.Second

	// mostConnections of a listener suffices for scrapers and people. It is capped at a share of the
	// descriptors: evictd must be able to open files and write its journal regardless of connections.
	// mostPerPeer bounds those of one other machine.
	mostConnections   = 64
	mostPerPeer       = 16
	shareOfFiles      = 16
	fewestConnections = 4
)

// A Server serves the connections of a listener.
type Server struct {
	*Connections
	http   http.Server
	served chan struct{} // closed when nothing is accepted any more
}

// New takes ownership of the listener. The caller must call Serve and End.
func New(l net.Listener, h http.Handler, limits Limits, log *slog.Logger) *Server {
	s := &Server{Connections: newConnections(l, limits, log), served: make(chan struct{})}
	s.http = http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       limits.Request,
		WriteTimeout:      limits.Answer,
		MaxHeaderBytes:    limits.HeaderBytes,
		ErrorLog:          stdlog.New(errorLog{log.Handler()}, "", 0),
		ConnState:         s.changed,
	}
	s.http.SetKeepAlivesEnabled(false) // a connection has one request: a peer's requests are its connections
	return s
}

// An errorLog filters net/http's log: failed handshakes of port scanners are no warnings.
type errorLog struct{ slog.Handler }

// Write implements io.Writer.
func (e errorLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	return slog.NewLogLogger(e.Handler, level).Writer().Write(line)
}

// Serve answers requests until End. An error is returned at once.
func (s *Server) Serve() error {
	defer close(s.served)
	if err := s.http.Serve(s.Connections); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// End stops the server and returns when it has ended. Clients may take a second to read their last
// responses, less if ctx ends before.
func (s *Server) End(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, s.hangUp)() // closing TLS would write to clients that do not read
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // of connections that are given up
	}
	<-s.served
	s.done.Wait()
}

// serve answers requests on l until ctx ends. Responses are generated completely before they are
// written, so that a client that does not read occupies only its connection.
func serve(ctx context.Context, l net.Listener, peer peering, perPeer int, h http.Handler, log *slog.Logger) error {
	limits := Limits{Total: total(), PerPeer: perPeer, Peer: peer, Request: requestTimeout, Answer: answerTimeout, HeaderBytes: maxHeaderBytes}
	s := New(l, http.TimeoutHandler(h, makeTimeout, "not made in time"), limits, log)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		s.End(context.WithoutCancel(ctx))
	})
	err := s.Serve()
	if !stop() { // it returns at once, and answers may still be under way
		<-ended
	}
	return err
}

// total returns the limit of connections, derived from RLIMIT_NOFILE.
func total() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return fewestConnections
	}
	return int(max(fewestConnections, min(mostConnections, files.Cur/shareOfFiles)))
}
