package summary

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evictd/evictd/host/internal/ground/printable"
)

const (
	// maxHeaderBytes bounds an answer's header, maxRefusalBytes what is read of one without a summary.
	maxHeaderBytes  = 64 << 10
	maxRefusalBytes = 1 << 10
	// idleTimeout keeps the connection open between passes.
	idleTimeout = 90 * time.Second
)

// kubelet fetches the summary from the server of a kubeconfig: over TLS, on a unix socket, or a file.
type kubelet struct {
	kubeconfig string
	// size of the last summary, in bytes.
	size atomic.Int64

	mu     sync.Mutex
	made   server // what client was made from
	client *http.Client
}

// fetch returns the summary. Its errors do not contain the token.
func (k *kubelet) fetch(ctx context.Context) ([]byte, error) {
	s, token, err := readServer(k.kubeconfig)
	if err != nil {
		return nil, err
	}
	summary, err := k.fetchFrom(ctx, &s, token)
	if err = cmp.Or(err, check(summary)); err != nil {
		return nil, fmt.Errorf("%s: %w", s.address, err)
	}
	return summary, nil
}

func (k *kubelet) fetchFrom(ctx context.Context, s *server, token string) ([]byte, error) {
	client, err := k.current(s)
	if err != nil {
		return nil, err
	}
	if s.scheme == "file" {
		return readRegular(s.path, maxBytes)
	}
	at := s.address
	if s.scheme == "unix" {
		at = "http://kubelet" + summaryPath
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return nil, refused(resp, token)
	}
	return k.read(ctx, resp)
}

// read reads a whole response.
func (k *kubelet) read(ctx context.Context, resp *http.Response) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(resp.ContentLength, k.size.Load()), maxBytes)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(resp.Body, maxBytes+1))
	switch {
	case ctx.Err() != nil:
		// A server may complete its response when it notices the cancellation, and that end may
		// still be read.
		return nil, context.Cause(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the answer ends early")
	case err != nil:
		return nil, explain(ctx, err)
	}
	k.size.Store(int64(b.Len()))
	return b.Bytes(), nil
}

// current returns the client for a server. Requests under way finish with the former one.
func (k *kubelet) current(s *server) (*http.Client, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil && k.made == *s {
		return k.client, nil
	}
	client, err := s.client()
	if err != nil {
		return nil, err
	}
	k.closeIdle()
	k.client, k.made = client, *s
	return k.client, nil
}

// client returns a client that connects only to the server: no proxy, and no redirect, which could
// leak the token.
func (s *server) client() (*http.Client, error) {
	config, err := s.tls()
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		TLSClientConfig:        config,
		DisableCompression:     true, // it costs more than it saves on one machine
		MaxIdleConnsPerHost:    2,    // the views of a pass
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
	}
	if socket := s.path; s.scheme == "unix" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (k *kubelet) unverified() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made.insecure
}

func (k *kubelet) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closeIdle()
}

func (k *kubelet) closeIdle() {
	if k.client != nil {
		k.client.CloseIdleConnections()
	}
}

// refused returns the error for a response without a summary.
func refused(resp *http.Response, token string) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBytes)) // what there is of it
	// A truncated response that repeats the token may contain a part of it.
	text := string(body)
	if token != "" && strings.Contains(text, token[:min(len(token), 8)]) {
		text = "(text not shown, it has the token)"
	}
	want := "want 200"
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		want = "want a token, or a client certificate, that the kubelet accepts"
	case http.StatusForbidden:
		want = "want a user who may get nodes/stats"
	case http.StatusNotFound:
		want = "want the kubelet's " + summaryPath + " there"
	}
	return fmt.Errorf("answered %d %s (%s), %s", resp.StatusCode, http.StatusText(resp.StatusCode), printable.ClipText(text), want)
}

// explain adds advice where the cause is known.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the rest of it is the address
	}
	var (
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		record  tls.RecordHeaderError
	)
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("%w, want a certificate-authority with the certificates that vouch for the kubelet's", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w, want tls-server-name with one of the certificate's", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w, want a server that speaks TLS", err)
	case errors.Is(err, io.EOF):
		return errors.New("the connection was closed without an answer")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w, want a kubelet that listens there", err)
	}
	return err
}
