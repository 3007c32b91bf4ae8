package httpserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// headerTimeout is how long a client may take for its request, requestTimeout
	// for all of it, answerTimeout until it has read the answer; keepTimeout is how
	// long it may keep a connection without asking anything: scrapers come each
	// minute.
	headerTimeout  = 5 * time.Second
	requestTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second
	keepTimeout    = 2 * time.Minute
	// makeTimeout is how long an answer may take to be made.
	makeTimeout = 10 * time.Second
	// endTimeout is how long clients may take for their last answers.
	endTimeout = time.Second

	maxHeaderBytes = 16 << 10
	// mostConnections is for any number of scrapers and people. It is but a share of
	// the descriptors: files must be opened and journals written whoever connects.
	mostConnections   = 64
	shareOfFiles      = 8
	fewestConnections = 4
)

// Serve answers on l until ctx ends. Answers are made whole before anything of
// them is written, so that a client which does not read holds its connection and
// nothing else.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	connections := NewConnections(l, Limits{Total: total(), Peer: Address}, log)
	if local(l.Addr()) {
		h = onlyLocalNames(h)
	}
	server := &http.Server{
		Handler:           http.TimeoutHandler(h, makeTimeout, "not made in time"),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       requestTimeout,
		WriteTimeout:      answerTimeout,
		IdleTimeout:       keepTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnState:         connections.Changed,
	}
	stop := context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	if err := server.Serve(connections); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// total is how many connections there may be, with the descriptors that there are.
func total() int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return fewestConnections
	}
	return int(max(fewestConnections, min(mostConnections, files.Cur/shareOfFiles)))
}
