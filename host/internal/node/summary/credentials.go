package summary

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strings"
)

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
