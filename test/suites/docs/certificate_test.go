package docs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evictd/evictd/shared/launch"
)

// What the document says of a plugin's certificate, tried with the host's own
// connection.
func TestCertificatesThatTheHostAccepts(t *testing.T) {
	good := func() *x509.Certificate {
		return &x509.Certificate{
			SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
			NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		}
	}
	with := func(change func(*x509.Certificate)) *x509.Certificate {
		c := good()
		change(c)
		return c
	}
	for name, c := range map[string]struct {
		key         crypto.Signer
		certificate *x509.Certificate
		versions    [2]uint16
		refused     bool
	}{
		"P-256":   {key: must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))},
		"P-384":   {key: must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))},
		"P-521":   {key: must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))},
		"RSA":     {key: must(rsa.GenerateKey(rand.Reader, 2048))},
		"Ed25519": {key: edKey()},
		"TLS 1.2": {versions: [2]uint16{tls.VersionTLS12, tls.VersionTLS12}},
		"TLS 1.3": {versions: [2]uint16{tls.VersionTLS13, tls.VersionTLS13}},
		"TLS 1.1": {versions: [2]uint16{tls.VersionTLS10, tls.VersionTLS11}, refused: true},
		"for servers": {certificate: with(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})},
		"for clients only": {refused: true, certificate: with(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		})},
		"an authority": {certificate: with(func(c *x509.Certificate) {
			c.IsCA, c.BasicConstraintsValid = true, true
		})},
		"only a common name": {refused: true, certificate: with(func(c *x509.Certificate) {
			c.DNSNames, c.Subject = nil, pkix.Name{CommonName: "localhost"}
		})},
		"another host": {refused: true, certificate: with(func(c *x509.Certificate) { c.DNSNames = []string{"example.com"} })},
		"of yesterday": {refused: true, certificate: with(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })},
		"of tomorrow":  {refused: true, certificate: with(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })},
	} {
		t.Run(name, func(t *testing.T) {
			if c.key == nil {
				c.key = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
			}
			if c.certificate == nil {
				c.certificate = good()
			}
			der := must(x509.CreateCertificate(rand.Reader, c.certificate, c.certificate, c.key.Public(), c.key))
			p := &inside{own: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: c.key}, versions: c.versions}
			err := p.ping(t)
			if refused := err != nil; refused != c.refused {
				t.Errorf("refused: %v (%v), want %v", refused, err, c.refused)
			}
		})
	}
}

// inside is a plugin inside of this process.
type inside struct {
	own      tls.Certificate
	versions [2]uint16
}

// ping asks the plugin whether it is there, as the host connects with it.
func (p *inside) ping(t *testing.T) error {
	t.Helper()
	dir, err := os.MkdirTemp("", "tls-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	host, err := launch.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	defer p.serve(t, host, socket)()
	certificate, err := x509.ParseCertificate(p.own.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	shown := launch.Handshake{Socket: socket, Certificate: certificate}
	cc, err := launch.Dial(socket, shown.Credentials(host))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	_, err = grpc_health_v1.NewHealthClient(cc).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "plugin"})
	return err
}

// serve serves on a socket until stop, to the host alone.
func (p *inside) serve(t *testing.T, host *launch.Identity, socket string) (stop func()) {
	t.Helper()
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM([]byte(host.PEM)) {
		t.Fatal("the host's certificate is not PEM")
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{p.own}, MinVersion: p.versions[0], MaxVersion: p.versions[1],
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	})))
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(server, h)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	return func() {
		server.Stop()
		serving.Wait()
	}
}

func edKey() crypto.Signer {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	return must(key, err)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
