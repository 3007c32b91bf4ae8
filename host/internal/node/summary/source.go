package summary

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// DefaultTimeout bounds the wait for a whole fetch, lateTimeout the fetch itself.
const DefaultTimeout, lateTimeout = 10 * time.Second, 30 * time.Second

// A Source fetches the kubelet's current summary. It is safe for concurrent use.
type Source struct {
	// name identifies the source in errors.
	name string
	// wait is the time that a pass waits for a fetch, timeout that of a fetch, which is kept if it
	// comes later.
	wait, timeout time.Duration
	// fetch may ignore its deadline: a file on a filesystem that hangs, or a function.
	fetch func(context.Context) ([]byte, error)
	close func()
	// unverified: the last fetch did not ask the server who it is.
	unverified func() bool
}

// Fetch returns the JSON document, which is immutable.
func (s *Source) Fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no whole answer within %v", s.timeout))
	defer cancel()
	summary, err := s.fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("get summary from %s: %w", s.name, err)
	}
	return summary, nil
}

// Unverified reports whether the last fetch trusted any server at the address.
func (s *Source) Unverified() bool { return s.unverified() }

// Close releases the source's resources after the last Fetch.
func (s *Source) Close() { s.close() }

// FromFunc returns a source that calls a function of the embedding program. The function is called
// by one goroutine at a time, must return soon after its ctx ends, and must not modify what it
// returned. A timeout of 0 is DefaultTimeout.
func FromFunc(summary func(ctx context.Context) ([]byte, error), timeout time.Duration) *Source {
	timeout = cmp.Or(max(timeout, 0), DefaultTimeout)
	fetch := func(ctx context.Context) ([]byte, error) {
		data, err := summary(ctx)
		return data, cmp.Or(err, check(data))
	}
	return &Source{name: "the embedding program", wait: timeout, timeout: timeout, fetch: fetch, close: func() {}, unverified: func() bool { return false }}
}

// readRegular reads a whole file. Its errors contain the path.
func readRegular(path string, maxBytes int64) ([]byte, error) {
	data, err := input.ReadFile(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, nil
}

// check rejects what cannot be a summary, so that the error names the source instead of a decoder.
// It does not decode it.
func check(summary []byte) error {
	if len(summary) > maxBytes {
		return fmt.Errorf("more than %d bytes, want a summary", maxBytes)
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
