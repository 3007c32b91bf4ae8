package evictd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

const (
	readyMessage  = "evictd ready"
	pageDeadline  = 5 * time.Second
	pageSizeLimit = 8 << 20
)

// Address returns the address of "healthz" or "metrics", "" before evictd is ready.
func (p *Process) Address(page string) string {
	if ready := p.Records(readyMessage); len(ready) > 0 {
		return ready[0].String(page)
	}
	return ""
}

// Get fetches a page from evictd.
func (p *Process) Get(ctx context.Context, path string) (code int, page []byte, err error) {
	return Get(ctx, p.RunDir, path)
}

// Get fetches a page from the evictd with a run directory.
func Get(ctx context.Context, runDir, path string) (code int, page []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, pageDeadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://evictd"+path, nil)
	if err != nil {
		return 0, nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(runDir, "evictd.sock"))
	}}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	page, err = io.ReadAll(io.LimitReader(resp.Body, pageSizeLimit))
	return resp.StatusCode, page, err
}

// Status fetches evictd's status.
func (p *Process) Status(ctx context.Context) (map[string]any, error) {
	_, page, err := p.Get(ctx, "/status")
	var status map[string]any
	if err == nil {
		err = json.Unmarshal(page, &status)
	}
	if err != nil {
		return nil, fmt.Errorf("status of evictd: %w", err)
	}
	return status, nil
}

// Elsewhere returns an address of this machine that is not a loopback address. It skips the test
// if there is none.
func Elsewhere(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("needs an address that is not of the loopback device")
	return ""
}
