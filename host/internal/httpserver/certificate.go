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

	"github.com/evictd/evictd/host/internal/input"
	"github.com/evictd/evictd/shared/hang"
)

const (
	// maxPEMBytes is far more than a certificate with its chain or a key has.
	maxPEMBytes = 1 << 20
	// Files that are replaced are served after followInterval at most. The kubelet looks once a minute.
	followInterval = 10 * time.Second
	// A certificate without files is valid for selfSignedFor, and renewed when a third of that is left.
	selfSignedFor = 30 * 24 * time.Hour
)

// A certificate is served to those who connect by TLS: that of two files, which are followed, or a
// self-signed one.
type certificate struct {
	certFile, keyFile string
	node              string
	ip                net.IP
	served            atomic.Pointer[tls.Certificate]
}

// CheckFiles reports why a certificate with its chain and its key, both as PEM, cannot be served. Both
// may be "". It waits for them for seconds at most.
func CheckFiles(certFile, keyFile string) error {
	if certFile == "" {
		return nil
	}
	_, err := load(certFile, keyFile, input.ReadFileSoon)
	return err
}

// A reader is one of package input.
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

// update has the certificate of the files served, or a self-signed one that is not about to expire.
func (c *certificate) update(now time.Time, read reader) error {
	if c.certFile == "" {
		if served := c.served.Load(); served != nil && served.Leaf.NotAfter.Sub(now) > selfSignedFor/3 && served.Leaf.NotBefore.Before(now) {
			return nil
		}
		made, err := selfSigned(c.node, c.ip, now)
		if err == nil {
			c.served.Store(&made)
		}
		return err
	}
	pair, err := load(c.certFile, c.keyFile, read)
	if err == nil {
		c.served.Store(&pair)
	}
	return err
}

// follow updates the certificate until ctx ends. Of files that are half replaced, or on a filesystem
// that hangs, the former pair is served.
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
		NextProtos: []string{"http/1.1"}, // a connection of HTTP/2 could hold any number of requests
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.served.Load(), nil
		},
	}
}

// selfSigned makes a certificate for a node and for the address that it listens on, if that is a
// single one. It encrypts, and proves nothing.
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
