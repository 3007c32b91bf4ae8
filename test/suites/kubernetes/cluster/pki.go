package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// validity is longer than any cluster lives.
const validity = 30 * 24 * time.Hour

// An authority signs the certificates of a cluster.
type authority struct {
	dir    string
	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial atomic.Int64
}

// newAuthority makes the authority and writes its certificate, ca.crt, into dir.
func newAuthority(dir string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "evictd-test"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	a := &authority{dir: dir, key: key}
	a.serial.Store(1)
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	return a, os.WriteFile(a.file("ca.crt"), encodeCertificate(raw), 0o644)
}

// file returns the path of a file of the authority.
func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// issue returns a certificate that is valid for loopback and for the DNS name node, and identifies
// its holder as the user.
func (a *authority) issue(user User, node string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate for %s: %w", user.Name, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial.Add(1)),
		Subject:      pkix.Name{CommonName: user.Name, Organization: user.Groups},
		NotBefore:    a.cert.NotBefore, NotAfter: a.cert.NotAfter,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"localhost", node}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("issue certificate for %s: %w", user.Name, err)
	}
	key, err = encodeKey(private)
	return encodeCertificate(raw), key, err
}

// issueFiles issues a certificate to NAME.crt and NAME.key.
func (a *authority) issueFiles(name string, user User, node string) error {
	cert, key, err := a.issue(user, node)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(a.file(name+".crt"), cert, 0o644), os.WriteFile(a.file(name+".key"), key, 0o600))
}

// signingKey writes the key that signs tokens of ServiceAccounts.
func (a *authority) signingKey(name string) error {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("make signing key: %w", err)
	}
	key, err := encodeKey(private)
	if err != nil {
		return err
	}
	return os.WriteFile(a.file(name), key, 0o600)
}

func encodeCertificate(raw []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}
