package summary

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// MaxBytes is the largest summary. A kubelet with 5000 pods has 10 MB.
	MaxBytes = 64 << 20
	// DefaultTimeout is how long a fetch may take in all.
	DefaultTimeout = 10 * time.Second
	// maxTextBytes is how much of a foreign text an error or a header has.
	maxTextBytes = 512
)

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
	b.Grow(int(min(max(hint, 0), MaxBytes)) + bytes.MinRead)
	if _, err := b.ReadFrom(io.LimitReader(r, MaxBytes+1)); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// check refuses what cannot be a summary, so that the error names the source and
// not a decoder. It does not look inside.
func check(summary []byte) error {
	if len(summary) > MaxBytes {
		return fmt.Errorf("more than %d bytes, want a summary", MaxBytes)
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

// line makes a foreign text fit for an error, a log and a header.
func line(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxTextBytes {
		text = strings.ToValidUTF8(text[:maxTextBytes], "") + "..."
	}
	return text
}
