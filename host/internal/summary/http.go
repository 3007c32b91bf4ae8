package summary

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/evictd/evictd/shared/summaryapi"
)

const (
	// maxHeaderBytes is how much an answer's header may have.
	maxHeaderBytes = 64 << 10
	// idleTimeout keeps the connection from one pass to the next.
	idleTimeout = 90 * time.Second
)

// newClient returns a client that goes nowhere but where it is told: no proxy,
// and no redirect, which could carry the token away.
func newClient(t *http.Transport) *http.Client {
	t.DisableCompression = true // it costs more than it saves on one machine
	t.MaxIdleConnsPerHost = 2   // the views of a pass
	t.IdleConnTimeout = idleTimeout
	t.MaxResponseHeaderBytes = maxHeaderBytes
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// A get is one question to an HTTP server.
type get struct {
	url   string
	token string
	// size is how large the last summary was.
	size *atomic.Int64
}

// do returns the summary. Its errors say neither the address nor the token.
func (g get) do(ctx context.Context, client *http.Client) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if g.token != "" {
		req.Header.Set("Authorization", "Bearer "+g.token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read only
	if resp.StatusCode != http.StatusOK {
		return nil, g.refused(resp)
	}
	summary, err := readSummary(resp.Body, max(resp.ContentLength, g.size.Load()))
	switch {
	case ctx.Err() != nil:
		// A server may end its answer properly when it sees that nobody wants it any
		// more, and that end may still be read.
		return nil, context.Cause(ctx)
	case err == nil:
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the answer ends early")
	default:
		return nil, explain(ctx, err)
	}
	if err := check(summary); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	g.size.Store(int64(len(summary)))
	return summary, nil
}

// refused is the error of an answer without a summary.
func (g get) refused(resp *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 2*summaryapi.MaxTextBytes)) // what there is of it
	// The beginning of an answer that repeats the token may have a part of it.
	text := string(body)
	if g.token != "" && strings.Contains(text, g.token[:min(len(g.token), 8)]) {
		text = "(text not shown, it has the token)"
	}
	want := "want 200"
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		want = "want a tokenFile, or certFile and keyFile, that the kubelet accepts"
	case http.StatusForbidden:
		want = "want a user who may get nodes/stats"
	case http.StatusNotFound:
		want = "want the kubelet's " + summaryPath + " there"
	}
	return fmt.Errorf("answered %d %s (%s), %s", resp.StatusCode, http.StatusText(resp.StatusCode), summaryapi.Line(text), want)
}

// explain says what would be right where the cause is known.
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
		return fmt.Errorf("%w, want caFile with the certificates that vouch for the kubelet's", err)
	case errors.As(err, &name):
		return fmt.Errorf("%w, want serverName with one of the certificate's", err)
	case errors.As(err, &record):
		return fmt.Errorf("%w, want a server that speaks TLS", err)
	case errors.Is(err, io.EOF):
		return errors.New("the connection was closed without an answer")
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("%w, want a kubelet that listens there", err)
	}
	return err
}
