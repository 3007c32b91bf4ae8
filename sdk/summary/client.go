package summary

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"
)

const (
	// maxErrorBytes limits what is read of an answer that is not a summary.
	maxErrorBytes = 4 << 10
	// maxHeaderBytes limits the headers of an answer.
	maxHeaderBytes = 64 << 10
	// keptBufferBytes is the maximum size of a buffer that is reused.
	keptBufferBytes = 8 << 20
)

// client is the plugin's side of the protocol.
type client struct {
	http.Client

	buffers sync.Pool
}

func newClient(socket string) *client {
	var dialer net.Dialer
	return &client{
		Client: http.Client{
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return dialer.DialContext(ctx, "unix", socket)
				},
				DisableCompression:     true,
				MaxIdleConnsPerHost:    2, // Observe and a late Measure
				MaxResponseHeaderBytes: maxHeaderBytes,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }},
	}
}

func (c *client) fetch(ctx context.Context, at eviction.PassView) answered {
	query, err := summaryapi.Query(at)
	if err != nil {
		return answered{failed: fmt.Errorf("get summary: %w", err)}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evictd"+summaryapi.Path+"?"+query, http.NoBody)
	if err != nil {
		return answered{failed: fmt.Errorf("get summary: %w", err)}
	}
	resp, err := c.Do(req)
	if err != nil {
		return answered{failed: failure(ctx, err)}
	}
	defer func() { _ = resp.Body.Close() }() // read only
	switch resp.StatusCode {
	case http.StatusOK, http.StatusServiceUnavailable:
	default:
		return answered{failed: fmt.Errorf("get summary: host answered %s: %s", resp.Status, errorText(resp.Body))}
	}
	layout, err := summaryapi.ReadLayout(resp.Header)
	if err != nil {
		return answered{failed: fmt.Errorf("get summary: %w", err)}
	}
	a := answered{layout: layout}
	if resp.StatusCode == http.StatusOK {
		a.summary, a.err, a.failed = c.decode(ctx, resp)
	} else {
		a.err = fmt.Errorf("%w: %s", ErrNoSummary, errorText(resp.Body))
	}
	return a
}

// decode reads and decodes the body. A body that cannot be read is a failure; one that cannot be
// decoded is an answer, since another request would return the same.
func (c *client) decode(ctx context.Context, resp *http.Response) (_ *Summary, err, failed error) {
	b, _ := c.buffers.Get().(*bytes.Buffer)
	defer func() {
		if b.Cap() <= keptBufferBytes {
			b.Reset()
			c.buffers.Put(b)
		}
	}()
	if n := resp.ContentLength; n > 0 {
		b.Grow(int(min(n, MaxBytes)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(resp.Body, MaxBytes+1)); err != nil {
		return nil, nil, failure(ctx, err)
	}
	s, err := Decode(b.Bytes())
	return s, err, nil
}

func errorText(body io.Reader) string {
	text, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes)) // what could be read
	return summaryapi.Line(string(text))
}

// failure returns the context's error if the context has ended, else err.
func failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("get summary: %w", err)
}
