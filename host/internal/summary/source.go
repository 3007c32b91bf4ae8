package summary

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/summaryapi"
)

// DefaultTimeout is how long a fetch may take in all.
const DefaultTimeout = 10 * time.Second

// A Source has the kubelet's summary of now. Its methods may be called
// concurrently.
type Source interface {
	// Fetch returns the JSON document. Nobody changes it afterwards. Fetch has a
	// deadline of its own and ends early when ctx does.
	Fetch(ctx context.Context) ([]byte, error)
	// Close gives up what the source holds, when no Fetch runs any more. It waits
	// until ctx ends for what cannot be interrupted.
	Close(ctx context.Context) error
}

// source is a Source by its name in errors.
type source struct {
	name  string
	fetch func(context.Context) ([]byte, error)
	close func(context.Context) error
}

// Fetch implements Source.
func (s *source) Fetch(ctx context.Context) ([]byte, error) {
	summary, err := s.fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("get summary from %s: %w", s.name, err)
	}
	return summary, nil
}

// Close implements Source.
func (s *source) Close(ctx context.Context) error { return s.close(ctx) }

// newSource is a source that may not keep a deadline, or a context.
func newSource(name string, timeout time.Duration, f func(context.Context) ([]byte, error)) *source {
	c := newCall(timeout, f)
	return &source{name: name, fetch: c.do, close: c.close}
}

// FromFunc returns the source that asks a function of the embedding program. The
// function is called by one goroutine at a time, must return soon after its ctx
// ends, and must not change what it returned. A timeout of 0 is DefaultTimeout.
func FromFunc(summary func(ctx context.Context) ([]byte, error), timeout time.Duration) Source {
	return newSource("the embedding program", cmp.Or(max(timeout, 0), DefaultTimeout), summary)
}

// newFile reads the summary from a file. Whoever writes it renames a whole one into
// place.
func newFile(path string, timeout time.Duration) Source {
	return newSource("file://"+path, timeout, func(context.Context) ([]byte, error) {
		return readRegular(path, summaryapi.MaxBytes)
	})
}

// newSocket gets the summary from an HTTP server on a unix socket.
func newSocket(path string, timeout time.Duration) Source {
	var dialer net.Dialer
	client := newClient(&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
	})
	ask := get{url: "http://kubelet" + summaryPath, size: new(atomic.Int64)}
	return &source{
		name: "unix://" + path,
		fetch: func(ctx context.Context) ([]byte, error) {
			ctx, cancel := deadline(ctx, timeout)
			defer cancel()
			return ask.do(ctx, client)
		},
		close: func(context.Context) error { client.CloseIdleConnections(); return nil },
	}
}

// readRegular reads a whole file and names it in errors.
func readRegular(path string, maxBytes int64) ([]byte, error) {
	data, err := input.ReadFile(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// deadline limits ctx. When the limit ends it, its cause says so.
func deadline(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no whole answer within %v", timeout))
}

// readSummary reads r to its end. The hint is how large the last one was.
func readSummary(r io.Reader, hint int64) ([]byte, error) {
	var b bytes.Buffer
	b.Grow(int(min(max(hint, 0), summaryapi.MaxBytes)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(r, summaryapi.MaxBytes+1)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// check refuses what cannot be a summary, so that the error names the source and
// not a decoder. It does not look inside.
func check(summary []byte) error {
	if len(summary) > summaryapi.MaxBytes {
		return fmt.Errorf("more than %d bytes, want a summary", summaryapi.MaxBytes)
	}
	text := bytes.TrimSpace(summary)
	switch {
	case len(text) == 0:
		return errors.New("nothing in it, want a JSON object")
	case text[0] != '{':
		return fmt.Errorf("it begins with %q, want a JSON object", text[:min(len(text), 16)])
	case text[len(text)-1] != '}':
		return errors.New("it ends early, want a whole JSON object")
	}
	return nil
}
