package summary

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

// maxCredentialBytes is more than any token or bundle of certificates has.
const maxCredentialBytes = 4 << 20

// readToken returns the token of a file, "" for no file.
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

// tlsFiles is what the files of Options have, nil for no file.
type tlsFiles struct{ ca, cert, key []byte }

func readTLSFiles(o *Options) (tlsFiles, error) {
	var f tlsFiles
	for _, r := range []struct {
		name, path string
		into       *[]byte
	}{
		{"caFile", o.CAFile, &f.ca}, {"certFile", o.CertFile, &f.cert}, {"keyFile", o.KeyFile, &f.key},
	} {
		if r.path == "" {
			continue
		}
		data, err := readRegular(r.path, maxCredentialBytes)
		if err != nil {
			return tlsFiles{}, fmt.Errorf("%s: %w", r.name, err)
		}
		*r.into = data
	}
	return f, nil
}

func (f tlsFiles) equal(g tlsFiles) bool {
	return bytes.Equal(f.ca, g.ca) && bytes.Equal(f.cert, g.cert) && bytes.Equal(f.key, g.key)
}

func (f tlsFiles) config(o *Options) (*tls.Config, error) {
	c := &tls.Config{ServerName: o.ServerName, InsecureSkipVerify: o.InsecureSkipVerify} //nolint:gosec // the configuration says so
	if o.CAFile != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(f.ca) {
			return nil, fmt.Errorf("caFile %s: no certificate in it, want PEM", o.CAFile)
		}
	}
	if o.CertFile != "" {
		pair, err := tls.X509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, fmt.Errorf("certFile %s and keyFile %s: %w", o.CertFile, o.KeyFile, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
