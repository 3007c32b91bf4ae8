package summary

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// summaryPath is the path of a kubelet's summary.
	summaryPath = "/stats/summary"
	// wantServer describes the valid servers.
	wantServer = "want https://HOST:PORT, unix:///PATH or file:///PATH"
)

// Options configures the source of the summary, with what it does not contain. It is a table of
// host/internal/face/config, which reads the tags.
type Options struct {
	// Kubeconfig is the path of a kubeconfig. The server in it is https://HOST:PORT of a kubelet,
	// with a path if the summary is not at /stats/summary, or unix:///PATH of a socket with an HTTP
	// server that has /stats/summary, or file:///PATH of a file. The kubeconfig, and the files that
	// it names, are read again when they change.
	Kubeconfig string `json:"kubeconfig" is:"file"`
	// Timeout bounds the wait for a whole fetch; 0 is DefaultTimeout. A fetch that comes later
	// counts for the next pass. The configuration's default leaves a plugin part of the second
	// that it has for an observation.
	Timeout metav1.Duration `json:"timeout" is:"timeout" default:"800ms"`
	// Layout names the layout of the node's filesystems, "" if not configured.
	Layout string `json:"layout" oneof:"shared imagefs containerfs"`
}

// Open returns the source that o describes. It reads nothing yet: the files may appear later.
func Open(o Options) (*Source, error) {
	switch {
	case !filepath.IsAbs(o.Kubeconfig):
		return nil, fmt.Errorf("kubeconfig: %q, want an absolute path", o.Kubeconfig)
	case o.Timeout.Duration < 0:
		return nil, fmt.Errorf("timeout: %v, want more than 0", o.Timeout.Duration)
	}
	o.Timeout.Duration = cmp.Or(o.Timeout.Duration, DefaultTimeout)
	k := &kubelet{kubeconfig: o.Kubeconfig}
	return &Source{
		name: o.Kubeconfig, wait: o.Timeout.Duration, timeout: max(o.Timeout.Duration, lateTimeout),
		fetch: k.fetch, close: k.close, unverified: k.unverified,
	}, nil
}

// parseServer returns an https address with its path, or a unix or file one. The error never shows
// what may be a secret.
func parseServer(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("server: not a URL, " + wantServer) // err would show the address
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("server: has a user, a query or a fragment, " + wantServer)
	}
	switch u.Scheme {
	case "https":
		if u.Hostname() == "" || u.Opaque != "" {
			return nil, errors.New("server: has no host, " + wantServer)
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path, u.RawPath = summaryPath, ""
		}
	case "unix", "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, fmt.Errorf("server: %q, %s with three slashes", u, wantServer)
		}
	default:
		return nil, fmt.Errorf("server: scheme %q, %s", u.Scheme, wantServer)
	}
	return u, nil
}
