package httpserver

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync/atomic"
	"time"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/hang"
)

const (
	// maxPEMBytes bounds certificate and key files, generously.
	maxPEMBytes = 1 << 20
	// followInterval is the interval of checks for replaced files. The kubelet's is a minute.
	followInterval = 10 * time.Second
	// Self-signed certificates are valid for selfSignedFor and renewed at a third of that.
	selfSignedFor = 30 * 24 * time.Hour
)

// A certificate is served to TLS clients: that of two files, which are followed, or a self-signed
// one.
type certificate struct {
	certFile, keyFile string
	node              string
	ip                net.IP
	served            atomic.Pointer[tls.Certificate]
}

// CheckFiles returns why a certificate with its chain and key, both PEM files, cannot be served.
// Both names may be "". It takes some seconds at most.
func CheckFiles(certFile, keyFile string) error {
	if certFile == "" {
		return nil
	}
	_, err := load(certFile, keyFile, input.ReadFileSoon)
	return err
}

// A reader is a file-reading function of package input.
type reader func(path string, maxBytes int64) ([]byte, error)

func load(certFile, keyFile string, read reader) (tls.Certificate, error) {
	cert, err := read(certFile, maxPEMBytes)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsCertFile %q: %w", certFile, err)
	}
	key, err := read(keyFile, maxPEMBytes)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsPrivateKeyFile %q: %w", keyFile, err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsCertFile %q and tlsPrivateKeyFile %q: %w", certFile, keyFile, err)
	}
	return pair, nil
}

// update loads the certificate from the files, or renews a self-signed one before it expires.
func (c *certificate) update(now time.Time, read reader) error {
	var pair tls.Certificate
	var err error
	switch served := c.served.Load(); {
	case c.certFile != "":
		pair, err = load(c.certFile, c.keyFile, read)
	case served != nil && served.Leaf.NotAfter.Sub(now) > selfSignedFor/3 && served.Leaf.NotBefore.Before(now):
		return nil
	default:
		pair, err = selfSigned(c.node, c.ip, now)
	}
	if err == nil {
		c.served.Store(&pair)
	}
	return err
}

// follow updates the certificate until ctx ends. While files are half replaced, or on a filesystem
// that hangs, it keeps serving the former pair.
func (c *certificate) follow(ctx context.Context, log *slog.Logger) {
	look := time.NewTicker(followInterval)
	defer look.Stop()
	failed := ""
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-look.C:
			_, err := hang.Do(ctx.Done(), func() (struct{}, error) { return struct{}{}, c.update(now, input.ReadFile) }, nil)
			if err == nil {
				failed = ""
			} else if failed != err.Error() && ctx.Err() == nil {
				failed = err.Error()
				log.Warn("certificate cannot be used, the former one is served", "error", err)
			}
		}
	}
}

func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"}, // an HTTP/2 connection could hold any number of requests
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.served.Load(), nil
		},
	}
}

// selfSigned creates a certificate for a node and its listen address, if that is a single one. It
// provides encryption but no authentication.
func selfSigned(node string, ip net.IP, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: node},
		NotBefore:    now.Add(-time.Hour), // clocks differ
		NotAfter:     now.Add(selfSignedFor),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{node},
	}
	if ip != nil && !ip.IsUnspecified() {
		template.IPAddresses = []net.IP{ip}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate for node %q: %w", node, err)
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}
