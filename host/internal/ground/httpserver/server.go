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
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// headerTimeout bounds how long a client may take to send a request's header; keepTimeout
	// bounds an idle connection: scrapers come each minute.
	headerTimeout = 5 * time.Second
	keepTimeout   = 2 * time.Minute
	// requestTimeout, answerTimeout and maxHeaderBytes are an Endpoint's Limits.
	requestTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second
	maxHeaderBytes = 16 << 10
	// makeTimeout bounds generating a response.
	makeTimeout = 10 * time.Second
	// endTimeout bounds reading the last responses at shutdown.
	endTimeout = time.Second

	// mostConnections suffices for scrapers and people. It is capped at a share of the descriptors:
	// evictd must be able to open files and write its journal regardless of connections.
	mostConnections   = 64
	shareOfFiles      = 8
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
		IdleTimeout:       keepTimeout,
		MaxHeaderBytes:    limits.HeaderBytes,
		ErrorLog:          stdlog.New(errorLog{log.Handler()}, "", 0),
		ConnState:         s.changed,
	}
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
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	limits := Limits{Total: total(), Peer: Address, Request: requestTimeout, Answer: answerTimeout, HeaderBytes: maxHeaderBytes}
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

// local reports whether only processes on this machine can reach an address.
func local(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// onlyLocalNames refuses requests for other host names than this machine's. Otherwise a web page
// could rebind its name to the loopback address, and have a browser on this machine read the
// response for it.
func onlyLocalNames(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localName(r.Host) {
			http.Error(w, "want localhost or a loopback address as Host", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// localName reports whether a request's Host is this machine. Old programs send none, unlike browsers.
func localName(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostPort, "["), "]")
	}
	ip, err := netip.ParseAddr(host)
	return hostPort == "" || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") || err == nil && ip.Unmap().IsLoopback()
}
