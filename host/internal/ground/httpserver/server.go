// Package httpserver answers HTTP requests at a bounded cost of descriptors, memory and time: a request per connection, so
// many connections at once and so many new ones per second. Who holds all of an address keeps others from it, but not root from
// the socket. Other machines need TLS.
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
	// headerTimeout and requestTimeout bound how long a client may take to send a request, answerTimeout how long to read the
	// response, makeTimeout how long that may take to generate.
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second
	makeTimeout    = 10 * time.Second
	maxHeaderBytes = 16 << 10
	// endTimeout bounds reading the last responses at shutdown.
	endTimeout = time.Second

	// mostConnections of a listener suffices for scrapers and people. It is capped at a share of the
	// descriptors: evictd must be able to open files and write its journal regardless of connections.
	mostConnections   = 64
	shareOfFiles      = 16
	fewestConnections = 4
)

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

// serve answers requests on l until ctx ends, and those under way for endTimeout at most. Responses are generated completely
// before they are written, so that a client that does not read occupies only its connection.
func serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	s := http.Server{
		Handler:           http.TimeoutHandler(h, makeTimeout, "not made in time"),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answerTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          stdlog.New(errorLog{log.Handler()}, "", 0),
	}
	s.SetKeepAlivesEnabled(false) // the limit of connections is one of requests
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if s.Shutdown(last) != nil {
			go s.Close() //nolint:errcheck // of connections that are given up: TLS writes to each, for 5 s if its client does not read
		}
	})
	err := s.Serve(l)
	if !stop() { // it returns at once, and answers may still be under way
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// most returns the limit of connections, derived from RLIMIT_NOFILE.
func most() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return fewestConnections
	}
	return int(max(fewestConnections, min(mostConnections, files.Cur/shareOfFiles)))
}
