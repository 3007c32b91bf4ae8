package summary

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/evictd/evictd/host/internal/ground/kubeconfig"
)

// A server has what a client is made of. Servers of equal files are equal.
type server struct {
	address, scheme, path string
	// ca, cert and key are PEM.
	ca, cert, key string
	// name is the name in the certificate, "" for the host of the address.
	name     string
	insecure bool
}

// readServer reads a kubeconfig with the files that it names: where the summary is, and a token, ""
// for none. Reading a few kilobytes in each pass is more reliable than notifications, which miss
// some ways in which files change.
func readServer(path string) (s server, token string, err error) {
	config, err := kubeconfig.Read(path)
	if err != nil {
		return s, "", err
	}
	u, err := parseServer(config.Host)
	if err != nil {
		return s, "", err
	}
	s = server{address: u.String(), scheme: u.Scheme, path: u.Path}
	if u.Scheme != "https" {
		return s, "", nil
	}
	if token, err = s.authenticate(config); err != nil {
		return s, "", fmt.Errorf("%s: %w", u, err)
	}
	return s, token, nil
}

// authenticate takes over how both sides prove who they are.
func (s *server) authenticate(c *rest.Config) (token string, err error) {
	if c.ExecProvider != nil || c.AuthProvider != nil || c.Username != "" {
		return "", errors.New("the user has exec, auth-provider or a password, want a token or a client certificate")
	}
	if token, err = readToken(c); err != nil {
		return "", err
	}
	if err := rest.LoadTLSFiles(c); err != nil {
		return "", err
	}
	s.ca, s.cert, s.key, s.name, s.insecure = string(c.CAData), string(c.CertData), string(c.KeyData), c.ServerName, c.Insecure
	return token, nil
}

// readToken returns the user's token, "" for none.
func readToken(c *rest.Config) (string, error) {
	from, text := "token", c.BearerToken
	if c.BearerTokenFile != "" {
		data, err := readRegular(c.BearerTokenFile, maxTokenBytes)
		if err != nil {
			return "", fmt.Errorf("tokenFile: %w", err)
		}
		from, text = "tokenFile "+c.BearerTokenFile, string(data)
	}
	token := strings.TrimSpace(text)
	switch {
	case token == "" && c.BearerTokenFile != "":
		return "", fmt.Errorf("%s: nothing in it, want a bearer token", from)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", fmt.Errorf("%s: more than one word or not ASCII, want a bearer token", from)
	}
	return token, nil
}

// maxTokenBytes bounds a token, generously.
const maxTokenBytes = 1 << 20

// tls returns how to connect to an https server.
func (s *server) tls() (*tls.Config, error) {
	config := &tls.Config{ServerName: s.name, InsecureSkipVerify: s.insecure} //nolint:gosec // the kubeconfig says so
	if s.ca != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(s.ca)) {
			return nil, errors.New("certificate-authority: no certificate in it, want PEM")
		}
	}
	if s.cert != "" {
		pair, err := tls.X509KeyPair([]byte(s.cert), []byte(s.key))
		if err != nil {
			return nil, fmt.Errorf("client-certificate and client-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
