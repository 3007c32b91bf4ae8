package summary

import (
	"cmp"
	"context"
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
	// wantAddress describes the valid addresses.
	wantAddress = "want https://HOST:PORT, unix:///PATH or file:///PATH"
)

// Options configures the source of the summary, with what it does not contain. It is a table of
// host/internal/face/config, which reads the tags.
type Options struct {
	// Address is https://HOST:PORT of a kubelet, with a path if the summary is not
	// at /stats/summary, or unix:///PATH of a socket with an HTTP server that has
	// /stats/summary, or file:///PATH of a file.
	Address string `json:"address" is:"url"`
	// TokenFile contains a bearer token. CertFile and KeyFile contain a client certificate and its
	// key as PEM, and may be one file. CAFile contains the CA certificates, as PEM, for the
	// kubelet's serving certificate; the default is the system's. All are for https only, and are
	// read again when they change.
	TokenFile string `json:"tokenFile" is:"file"`
	CertFile  string `json:"certFile" is:"file"`
	KeyFile   string `json:"keyFile" is:"file"`
	CAFile    string `json:"caFile" is:"file"`
	// ServerName is the name in the kubelet's certificate, if it is not the host of
	// the address.
	ServerName string `json:"serverName" is:"host"`
	// InsecureSkipVerify trusts any server at the address, and sends it the token.
	InsecureSkipVerify bool `json:"insecureSkipVerify"`
	// Timeout bounds the wait for a whole fetch; 0 is DefaultTimeout. A fetch that comes later
	// counts for the next pass. The configuration's default leaves a plugin part of the second
	// that it has for an observation.
	Timeout metav1.Duration `json:"timeout" is:"timeout" default:"800ms"`
	// Layout names the layout of the node's filesystems, "" if not configured.
	Layout string `json:"layout" oneof:"shared imagefs containerfs"`
}

// Open returns the source that o describes. It reads nothing yet: the files may appear later. The
// error has a line for each bad option, and never shows what may be a secret.
func Open(o Options) (*Source, error) {
	u, err := o.check()
	if err != nil {
		return nil, err
	}
	o.Timeout.Duration = cmp.Or(o.Timeout.Duration, DefaultTimeout)
	s := &Source{name: u.String(), wait: o.Timeout.Duration, timeout: max(o.Timeout.Duration, lateTimeout)}
	if u.Scheme == "file" {
		s.fetch, s.close = func(context.Context) ([]byte, error) { return readRegular(u.Path, maxBytes) }, func() {}
	} else {
		k := newKubelet(u, o)
		s.fetch, s.close = k.fetch, k.close
	}
	return s, nil
}

func (o *Options) check() (*url.URL, error) {
	var errs []error
	u, err := parseAddress(o.Address)
	if err != nil {
		errs = append(errs, fmt.Errorf("address: %w", err))
	}
	if o.Timeout.Duration < 0 {
		errs = append(errs, fmt.Errorf("timeout: %v, want more than 0", o.Timeout.Duration))
	}
	plain := u != nil && u.Scheme != "https"
	for _, f := range []struct{ name, value string }{
		{"tokenFile", o.TokenFile}, {"certFile", o.CertFile}, {"keyFile", o.KeyFile}, {"caFile", o.CAFile}, {"serverName", o.ServerName},
	} {
		switch {
		case f.value == "":
		case plain:
			errs = append(errs, fmt.Errorf("%s: only for an https address", f.name))
		case f.name != "serverName" && !filepath.IsAbs(f.value):
			// Not shown: it may be the token by mistake.
			errs = append(errs, fmt.Errorf("%s: want an absolute path", f.name))
		}
	}
	if plain && o.InsecureSkipVerify {
		errs = append(errs, errors.New("insecureSkipVerify: only for an https address"))
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		errs = append(errs, errors.New("certFile: want keyFile with it, and neither alone; one file may be both"))
	}
	if o.InsecureSkipVerify && (o.CAFile != "" || o.ServerName != "") {
		errs = append(errs, errors.New("insecureSkipVerify: want it without caFile and serverName, which it would ignore"))
	}
	return u, errors.Join(errs...)
}

// parseAddress returns an https address with its path, or a unix or file one.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("not a URL, " + wantAddress) // err would show the address
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return nil, errors.New("has a user, a query or a fragment, " + wantAddress)
	}
	switch u.Scheme {
	case "https":
		if u.Hostname() == "" || u.Opaque != "" {
			return nil, errors.New("has no host, " + wantAddress)
		}
		if strings.Trim(u.Path, "/") == "" {
			u.Path, u.RawPath = summaryPath, ""
		}
	case "unix", "file":
		if u.Host != "" || !filepath.IsAbs(u.Path) {
			return nil, fmt.Errorf("%q, %s with three slashes", u, wantAddress)
		}
	default:
		return nil, fmt.Errorf("scheme %q, %s", u.Scheme, wantAddress)
	}
	return u, nil
}
