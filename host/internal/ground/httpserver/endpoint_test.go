package httpserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/host/internal/ground/input"
	"github.com/evictd/evictd/shared/testos"
	"github.com/evictd/evictd/test/harness/daemon"
	"github.com/evictd/evictd/test/harness/evictd"
)

func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// write has a certificate for a node in two files.
func write(t *testing.T, o *Options, node string) {
	t.Helper()
	pair, err := selfSigned(node, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{o.CertFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, o.KeyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		testos.WriteFile(t, path, pem.EncodeToMemory(block), 0o600)
	}
}

func files(t *testing.T, node string) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Address: "127.0.0.1:0", CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	write(t, &o, node)
	return o
}

func over(t *testing.T, url string) (answer string, state *tls.ConnectionState) {
	t.Helper()
	client := http.Client{Timeout: maxWait, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), resp.TLS
}

func TestOtherMachinesHaveTLS(t *testing.T) {
	ip := evictd.Elsewhere(t)
	for _, listen := range []string{"0.0.0.0:0", ip + ":0", ":0"} {
		t.Run(listen, func(t *testing.T) {
			address, log := open(t, Options{Address: listen, TLS: true}, says("metrics"))
			_, port, _ := net.SplitHostPort(address)
			there := net.JoinHostPort(ip, port)
			if answer, state := over(t, "https://"+there); answer != "metrics" || state.Version < tls.VersionTLS12 || state.NegotiatedProtocol == "h2" {
				t.Errorf("by TLS %q with %+v", answer, state)
			}
			if answer := ask(t, there, "localhost"); !strings.HasPrefix(answer, "HTTP/1.0 400 ") {
				t.Errorf("plain HTTP gets %q", answer)
			}
			if log.String() != "" {
				t.Errorf("log %q", log)
			}
		})
	}
}

func TestTheLoopbackDeviceHasTLSWithFilesOnly(t *testing.T) {
	o := files(t, "given")
	o.TLS = true
	address, _ := open(t, o, says("metrics"))
	if answer, state := over(t, "https://"+address); answer != "metrics" || state.PeerCertificates[0].DNSNames[0] != "given" {
		t.Errorf("%q with %v", answer, state.PeerCertificates[0].DNSNames)
	}
	address, _ = open(t, Options{Address: "127.0.0.1:0", TLS: true}, says("metrics"))
	if answer, _ := over(t, "http://"+address); answer != "metrics" {
		t.Errorf("without files %q", answer)
	}
}

// With route_localnet other machines reach 127.0.0.1.
func TestTheLoopbackDeviceIsForThisMachine(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1:1": true, "127.1.2.3:1": true, "[::1]:1": true, "10.1.2.3:1": false, "[2001:db8::1]:1": false} {
		if got := onMachine(peer{address: address}); got != want {
			t.Errorf("%s: on this machine: %t, want %t", address, got, want)
		}
	}
}

// A peer is a connection from an address.
type peer struct {
	net.Conn

	address string
}

func (p peer) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(p.address))
}

func TestNoAddressServesNothing(t *testing.T) {
	e, err := Listen(t.Context(), Options{})
	if err := errors.Join(err, e.Serve(t.Context(), says("x")), e.Close()); err != nil || e.Addr() != "" {
		t.Errorf("%q, %v", e.Addr(), err)
	}
}

func TestCommandsAreAnsweredOnASocketOfTheirUser(t *testing.T) {
	dir := daemon.RunDir(t)
	socket := filepath.Join(dir, "evictd.sock")
	for range 2 { // the second one replaces the socket that the first one leaves
		l, err := ListenLocal(socket)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
		}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- ServeLocal(ctx, l, says("status"), quiet) }()
		answer, err := Ask(t.Context(), socket, "/status")
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(answer.Body); string(text) != "status" || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		_ = answer.Body.Close()
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestFilesThatCannotBeServedAreErrors(t *testing.T) {
	one, other := files(t, "one"), files(t, "other")
	none := filepath.Join(t.TempDir(), "none")
	for name, c := range map[string]struct{ cert, key, want string }{
		"missing":              {none, one.KeyFile, "tlsCertFile"},
		"a missing key":        {one.CertFile, none, "tlsPrivateKeyFile"},
		"the key of another":   {one.CertFile, other.KeyFile, "does not match"},
		"a key as certificate": {one.KeyFile, one.KeyFile, "tlsCertFile"},
		"a device":             {"/dev/zero", one.KeyFile, "is a device"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := Listen(t.Context(), Options{Address: "127.0.0.1:0", TLS: true, CertFile: c.cert, KeyFile: c.key})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if e != nil {
				t.Error("it listens")
			}
			if err := CheckFiles(c.cert, c.key); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("checked: %v, want %q", err, c.want)
			}
		})
	}
}

func TestReplacedFilesAreServed(t *testing.T) {
	o := files(t, "one")
	c := &certificate{certFile: o.CertFile, keyFile: o.KeyFile}
	served := func() string { return c.served.Load().Leaf.DNSNames[0] }
	if err := c.update(time.Now(), input.ReadFile); err != nil || served() != "one" {
		t.Fatal(served(), err)
	}
	former := testos.ReadFile(t, o.KeyFile)
	write(t, &o, "two")
	other, err := os.ReadFile(o.KeyFile)
	if err == nil {
		err = os.WriteFile(o.KeyFile, former, 0o600) // half replaced
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := c.update(time.Now(), input.ReadFile); err == nil || served() != "one" {
		t.Errorf("%s is served of files that do not match, error %v", served(), err)
	}
	testos.WriteFile(t, o.KeyFile, other, 0o600)
	if err := c.update(time.Now(), input.ReadFile); err != nil || served() != "two" {
		t.Errorf("%s is served, error %v", served(), err)
	}
}

func TestASelfSignedCertificateIsRenewedBeforeItExpires(t *testing.T) {
	c, now := &certificate{node: "node-1", ip: net.IPv4(10, 0, 0, 5)}, time.Now()
	at := func(after time.Duration) *x509.Certificate {
		if err := c.update(now.Add(after), input.ReadFile); err != nil {
			t.Fatal(err)
		}
		return c.served.Load().Leaf
	}
	first := at(0)
	if err := first.VerifyHostname("node-1"); err != nil {
		t.Error(err)
	}
	if err := first.VerifyHostname("10.0.0.5"); err != nil {
		t.Error(err)
	}
	if at(selfSignedFor/2) != first {
		t.Error("it was renewed although it is valid for long")
	}
	if second := at(selfSignedFor * 3 / 4); second == first || second.NotAfter.Before(first.NotAfter) {
		t.Error("it was not renewed")
	}
	if back := at(0); back.NotBefore.After(now) {
		t.Error("after the clock was set back it is of the future")
	}
}

// A peer that has its answer and reads nothing more does not delay the end.
func TestTheEndDoesNotWaitForPeersOfTLS(t *testing.T) {
	ip := evictd.Elsewhere(t)
	large := says(strings.Repeat("x", 1<<20))
	e, err := Listen(t.Context(), Options{Address: ip + ":0", TLS: true, NodeName: "node-1", Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Serve(ctx, large) }()
	for range 16 {
		raw := dial(t, e.Addr())
		_ = raw.(*net.TCPConn).SetReadBuffer(4 << 10)
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true})
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 3*endTimeout {
		t.Errorf("the end took %v", took)
	}
}
