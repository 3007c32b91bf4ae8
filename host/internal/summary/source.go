package summary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

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
