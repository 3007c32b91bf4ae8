package summary

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// socket gets the summary from an HTTP server on a unix socket.
type socket struct {
	path    string
	timeout time.Duration
	client  *http.Client
	size    atomic.Int64
}

func newSocket(path string, timeout time.Duration) *socket {
	var dialer net.Dialer
	return &socket{path: path, timeout: timeout, client: newClient(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
	})}
}

func (s *socket) Fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := deadline(ctx, s.timeout)
	defer cancel()
	summary, err := get{url: "http://kubelet" + summaryPath, size: &s.size}.do(ctx, s.client)
	if err != nil {
		return nil, fmt.Errorf("get summary from unix://%s: %w", s.path, err)
	}
	return summary, nil
}

func (s *socket) Close(context.Context) error {
	s.client.CloseIdleConnections()
	return nil
}
