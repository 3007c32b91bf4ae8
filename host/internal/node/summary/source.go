package summary

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
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
}

// Fetch returns the JSON document, which is immutable.
func (s *Source) Fetch(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no whole answer within %v", s.timeout))
	defer cancel()
	summary, err := s.fetch(ctx)
	if err = cmp.Or(err, check(summary)); err != nil {
		return nil, fmt.Errorf("get summary from %s: %w", s.name, err)
	}
	return summary, nil
}

// Close releases the source's resources after the last Fetch.
func (s *Source) Close() { s.close() }

// FromFunc returns a source that calls a function of the embedding program. The function is called
// by one goroutine at a time, must return soon after its ctx ends, and must not modify what it
// returned. A timeout of 0 is DefaultTimeout.
func FromFunc(summary func(ctx context.Context) ([]byte, error), timeout time.Duration) *Source {
	timeout = cmp.Or(max(timeout, 0), DefaultTimeout)
	return &Source{name: "the embedding program", wait: timeout, timeout: timeout, fetch: summary, close: func() {}}
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

// maxCredentialBytes bounds tokens and certificate bundles, generously.
const maxCredentialBytes = 4 << 20

// readToken returns the token in a file, "" for no file.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := readRegular(path, maxCredentialBytes)
	if err != nil {
		return "", fmt.Errorf("tokenFile: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", fmt.Errorf("tokenFile %s: nothing in it, want a bearer token", path)
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("tokenFile %s: more than one word or not ASCII, want a bearer token", path)
	}
	return token, nil
}

// tlsFiles holds the contents of the files in Options, by path.
type tlsFiles map[string]string

func readTLSFiles(o *Options) (tlsFiles, error) {
	files := tlsFiles{}
	for _, f := range []struct{ name, path string }{{"caFile", o.CAFile}, {"certFile", o.CertFile}, {"keyFile", o.KeyFile}} {
		if f.path == "" {
			continue
		}
		data, err := readRegular(f.path, maxCredentialBytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		files[f.path] = string(data)
	}
	return files, nil
}

func (f tlsFiles) config(o *Options) (*tls.Config, error) {
	c := &tls.Config{ServerName: o.ServerName, InsecureSkipVerify: o.InsecureSkipVerify} //nolint:gosec // the configuration says so
	if o.CAFile != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(f[o.CAFile])) {
			return nil, fmt.Errorf("caFile %s: no certificate in it, want PEM", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.X509KeyPair([]byte(f[o.CertFile]), []byte(f[o.KeyFile]))
		if err != nil {
			return nil, fmt.Errorf("certFile %s and keyFile %s: %w", o.CertFile, o.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
