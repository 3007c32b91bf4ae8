package docs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/evictd/evictd/shared/wire"
)

// What the document says of a plugin's certificate, tried with go-plugin's own
// client, which is the host's.
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

// inside is a plugin inside of this process, in the place of one that go-plugin
// starts.
type inside struct {
	own      tls.Certificate
	versions [2]uint16

	server *grpc.Server
	wg     sync.WaitGroup
	line   string
	ended  chan struct{}
	once   sync.Once
}

var _ runner.Runner = (*inside)(nil)

// ping asks the plugin whether it is there.
func (p *inside) ping(t *testing.T) error {
	t.Helper()
	dir, err := os.MkdirTemp("", "tls-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	p.ended = make(chan struct{})
	client := plugin.NewClient(&plugin.ClientConfig{
		HandshakeConfig: wire.Handshake, VersionedPlugins: wire.ClientPlugins(), AllowedProtocols: []plugin.Protocol{plugin.ProtocolGRPC},
		AutoMTLS: true, SkipHostEnv: true, UnixSocketConfig: &plugin.UnixSocketConfig{TempDir: dir}, Logger: hclog.NewNullLogger(),
		RunnerFunc: func(_ hclog.Logger, cmd *exec.Cmd, dir string) (runner.Runner, error) {
			return p, p.serve(cmd.Env, filepath.Join(dir, "s"))
		},
	})
	defer func() {
		_ = p.Kill(t.Context()) // else the client's would wait for what never comes
		client.Kill()
	}()
	connection, err := client.Client()
	if err != nil {
		return err
	}
	return connection.Ping()
}

func (p *inside) serve(env []string, socket string) error {
	trusted := x509.NewCertPool()
	for _, e := range env {
		if pem, ok := strings.CutPrefix(e, "PLUGIN_CLIENT_CERT="); ok && !trusted.AppendCertsFromPEM([]byte(pem)) {
			return errors.New("the host's certificate is not PEM")
		}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	p.server = grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{p.own}, MinVersion: p.versions[0], MaxVersion: p.versions[1],
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusted,
	})))
	h := health.NewServer()
	h.SetServingStatus("plugin", grpc_health_v1.HealthCheckResponse_SERVING)
	grpc_health_v1.RegisterHealthServer(p.server, h)
	p.wg.Go(func() { _ = p.server.Serve(listener) })
	p.line = fmt.Sprintf("1|1|unix|%s|grpc|%s\n", socket, base64.RawStdEncoding.EncodeToString(p.own.Certificate[0]))
	return nil
}

func (p *inside) Start(context.Context) error { return nil }
func (p *inside) Stdout() io.ReadCloser       { return io.NopCloser(strings.NewReader(p.line)) }
func (p *inside) Stderr() io.ReadCloser       { return io.NopCloser(strings.NewReader("")) }
func (p *inside) Name() string                { return "inside" }
func (p *inside) ID() string                  { return "0" }

func (p *inside) Wait(context.Context) error {
	<-p.ended
	return nil
}

func (p *inside) Kill(context.Context) error {
	p.once.Do(func() {
		if p.server != nil {
			p.server.Stop()
		}
		p.wg.Wait()
		close(p.ended)
	})
	return nil
}

func (p *inside) Diagnose(context.Context) string { return "" }

func (p *inside) PluginToHost(network, address string) (string, string, error) {
	return network, address, nil
}

func (p *inside) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
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
