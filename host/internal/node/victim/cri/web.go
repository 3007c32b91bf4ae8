package cri

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

const (
	// maxReplyBytes bounds how much of a reply is read; it is not used.
	maxReplyBytes = 10 << 10
	maxRedirects  = 10
	// userAgent is the kubelet's User-Agent for hooks.
	userAgent = "kube-lifecycle/1.36"
)

// web sends the HTTP requests of hooks like the kubelet: without a proxy, and without verifying the
// certificate.
type web struct{ client *http.Client }

func newWeb() web {
	return web{&http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // pods have certificates of their own, as in the kubelet
		},
		CheckRedirect: sameHost,
	}}
}

// sameHost follows redirects only to the same host.
func sameHost(next *http.Request, before []*http.Request) error {
	if next.URL.Hostname() != before[0].URL.Hostname() || len(before) >= maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

// get returns nil if the server at host answers with success.
func (w web) get(ctx context.Context, action *v1.HTTPGetAction, of *v1.Container, host string) error {
	r, err := request(ctx, action, of, host)
	if err != nil {
		return err
	}
	reply, err := w.client.Do(r)
	if errors.Is(err, http.ErrSchemeMismatch) { // a server without TLS, which the kubelet tolerates
		plain := r.Clone(ctx)
		plain.URL.Scheme = "http"
		plain.Header.Del("Authorization")
		reply, err = w.client.Do(plain)
	}
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if _, err := io.Copy(io.Discard, io.LimitReader(reply.Body, maxReplyBytes)); err != nil {
		return fmt.Errorf("read the reply of %s: %w", r.URL.Redacted(), err)
	}
	if reply.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s answers %s", r.URL.Redacted(), reply.Status)
	}
	return nil
}

func request(ctx context.Context, action *v1.HTTPGetAction, of *v1.Container, host string) (*http.Request, error) {
	port, err := portOf(action.Port, of)
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(action.Path)
	if err != nil {
		u = &url.URL{Path: action.Path}
	}
	u.Scheme, u.Host = "http", net.JoinHostPort(host, strconv.Itoa(port))
	if action.Scheme == v1.URISchemeHTTPS {
		u.Scheme = "https"
	} else if action.Scheme != "" && action.Scheme != v1.URISchemeHTTP {
		return nil, fmt.Errorf("scheme %q is unknown, want HTTP or HTTPS", action.Scheme)
	}
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for _, h := range action.HTTPHeaders {
		r.Header.Add(h.Name, h.Value)
	}
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	for name, value := range map[string]string{"User-Agent": userAgent, "Accept": "*/*"} {
		if _, given := r.Header[name]; !given {
			r.Header.Set(name, value)
		}
	}
	return r, nil
}

// portOf returns a port by number, or by name among the container's ports.
func portOf(port intstr.IntOrString, of *v1.Container) (int, error) {
	number := port.IntValue()
	if port.Type == intstr.String && number == 0 {
		for _, p := range of.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("port %q is neither a number from 1 to 65535 nor the name of a port of the container", port.String())
	}
	return number, nil
}

// nodeAddress returns the node's address on the interface of its default route, where the kubelet
// expects pods in the host's network, else the loopback address.
func nodeAddress() string {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return "127.0.0.1"
	}
	return ip.String()
}
