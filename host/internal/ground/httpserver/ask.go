package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
)

// Ask requests a page from an Endpoint on this machine that listens on host and port, without a
// token. The caller closes the response's body.
func Ask(ctx context.Context, host, port, page string) (*http.Response, error) {
	at := net.JoinHostPort(onLoopback(host), port) + page
	answer, err := get(ctx, "http://"+at)
	if err != nil || answer.StatusCode != http.StatusBadRequest {
		return answer, err
	}
	why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	_ = answer.Body.Close()                          // read only
	if bytes.Contains(why, []byte("HTTPS server")) { // net/http's text: the loopback device with certificate files
		return get(ctx, "https://"+at)
	}
	answer.Body = io.NopCloser(bytes.NewReader(why))
	return answer, nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true,
		// On the loopback device a certificate proves no more than owning the port.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // on the loopback device
	}}
	return client.Do(req)
}

// onLoopback returns the loopback address for requests to an Endpoint on host.
func onLoopback(host string) string {
	switch ip, err := netip.ParseAddr(host); {
	case host != "" && (err != nil || ip.IsLoopback()):
		return host
	case host == "" || ip.Is4():
		return "127.0.0.1"
	default:
		return "::1"
	}
}
