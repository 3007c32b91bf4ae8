package launch

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// An Identity authenticates the host to one start of a plugin. Its certificate has the same curve
// and fields as those of other go-plugin hosts.
type Identity struct {
	// PEM is the encoded certificate, which the plugin gets in its environment.
	PEM  string
	pair tls.Certificate
}

// NewIdentity makes a key and a certificate.
func NewIdentity() (*Identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "localhost", Organization: []string{"HashiCorp"}},
		DNSNames:     []string{"localhost"},
		NotBefore:    time.Now().Add(-30 * time.Second), NotAfter: time.Now().Add(262980 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment | x509.KeyUsageKeyAgreement | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &Identity{
		PEM:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		pair: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// Trusting returns the host's TLS configuration, which accepts only the certificate that the
// plugin sent.
func (i *Identity) Trusting(plugin *x509.Certificate) *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(plugin)
	return &tls.Config{Certificates: []tls.Certificate{i.pair}, RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

// parseCertificate decodes the sixth field of the handshake.
func parseCertificate(field string) (*x509.Certificate, error) {
	der, err := base64.RawStdEncoding.DecodeString(field)
	if err != nil {
		return nil, fmt.Errorf("certificate is not unpadded base64: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate is not DER: %w", err)
	}
	return cert, cert.VerifyHostname("localhost")
}
