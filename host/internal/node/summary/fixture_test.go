package summary

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evictd/evictd/shared/testos"
)

// maxWait bounds a test's wait for something that has to happen.
const maxWait = 10 * time.Second

// receive fails the test when nothing comes.
func receive[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(maxWait):
		t.Fatalf("no %s", what)
		panic("not reached")
	}
}

// given has what a kubeconfig says, and the timeout.
type given struct {
	Address, TokenFile, CertFile, KeyFile, CAFile, ServerName string
	// User has more of the user, such as "token: x".
	User               string
	InsecureSkipVerify bool
	Timeout            time.Duration
}

func (g given) kubeconfig() string {
	text := "clusters:\n- name: c\n  cluster:\n"
	for _, f := range []struct{ name, value string }{{"server", g.Address}, {"certificate-authority", g.CAFile}, {"tls-server-name", g.ServerName}} {
		if f.value != "" {
			text += fmt.Sprintf("    %s: %q\n", f.name, f.value)
		}
	}
	if g.InsecureSkipVerify {
		text += "    insecure-skip-tls-verify: true\n"
	}
	text += "users:\n- name: u\n  user:\n    as-user-extra: {}\n"
	for _, f := range []struct{ name, value string }{{"tokenFile", g.TokenFile}, {"client-certificate", g.CertFile}, {"client-key", g.KeyFile}} {
		if f.value != "" {
			text += fmt.Sprintf("    %s: %q\n", f.name, f.value)
		}
	}
	if g.User != "" {
		text += "    " + g.User + "\n"
	}
	return text + "contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n"
}

// open returns the source for a kubeconfig, and closes it at the end.
func open(t *testing.T, g given) *Source {
	t.Helper()
	return openFile(t, write(t, filepath.Join(t.TempDir(), "kubeconfig"), g.kubeconfig()), g.Timeout)
}

func openFile(t *testing.T, kubeconfig string, timeout time.Duration) *Source {
	t.Helper()
	s, err := Open(Options{Kubeconfig: kubeconfig, Timeout: metav1.Duration{Duration: timeout}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func closeLater(t *testing.T, s interface{ Close(context.Context) error }) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), maxWait)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// serveTLS starts a server in the place of a kubelet.
func serveTLS(t *testing.T, auth func(*httptest.Server), h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = nil
	if auth != nil {
		auth(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// caFile has the certificate of s.
func caFile(t *testing.T, s *httptest.Server) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "ca.pem"), string(pemOf("CERTIFICATE", s.Certificate().Raw)))
}

// serveUnix starts a server on a socket in the place of a kubelet.
func serveUnix(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "kubelet.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return path
}

// socketDir is short enough for a socket, and private.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "summary")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// write replaces a file at once, as whoever rotates credentials does.
func write(t *testing.T, path, text string) string {
	t.Helper()
	testos.WriteFile(t, path+".tmp", text, 0o600)
	testos.Rename(t, path+".tmp", path)
	return path
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// clientPair returns a self-signed client certificate and its key in one PEM text, as
// the kubelet keeps its own.
func clientPair(t *testing.T, name string) (*x509.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotAfter:     time.Now().Add(time.Hour),
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return cert, string(pemOf("CERTIFICATE", der)) + string(pemOf("EC PRIVATE KEY", keyDER))
}

// wantError fails unless err has all of parts.
func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("error %q, want %q in it", err, p)
		}
	}
}

func wantSummary(t *testing.T, s *Source, want string) {
	t.Helper()
	got, err := s.Fetch(t.Context())
	if err != nil || string(got) != want {
		t.Errorf("summary %.100q, %v, want %.100q", got, err, want)
	}
}
