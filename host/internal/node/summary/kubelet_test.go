package summary

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/nodefs"
	"github.com/evictd/evictd/test/harness/leaks"
)

func answerOK(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"node":{}}`) }

func quiet(s *httptest.Server) { s.Config.ErrorLog = log.New(io.Discard, "", 0) }

func TestARotatedTokenIsUsedAtOnce(t *testing.T) {
	leaks.None(t)
	s := serveTLS(t, nil, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"path":%q,"auth":%q}`, r.URL.Path, r.Header.Get("Authorization"))
	})
	token := write(t, filepath.Join(t.TempDir(), "token"), "one\n")
	source := open(t, given{Address: s.URL, CAFile: caFile(t, s), TokenFile: token})
	wantSummary(t, source, `{"path":"/stats/summary","auth":"Bearer one"}`)
	write(t, token, "two")
	wantSummary(t, source, `{"path":"/stats/summary","auth":"Bearer two"}`)
}

func TestARotatedClientCertificateIsUsedAtOnce(t *testing.T) {
	leaks.None(t)
	first, firstPEM := clientPair(t, "first")
	second, secondPEM := clientPair(t, "second")
	auth := func(s *httptest.Server) {
		pool := x509.NewCertPool()
		pool.AddCert(first)
		pool.AddCert(second)
		s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
		quiet(s)
	}
	s := serveTLS(t, auth, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"user":%q}`, r.TLS.PeerCertificates[0].Subject.CommonName)
	})
	ca := caFile(t, s)
	pair := write(t, filepath.Join(t.TempDir(), "client.pem"), firstPEM)
	source := open(t, given{Address: s.URL, CAFile: ca, CertFile: pair, KeyFile: pair})
	wantSummary(t, source, `{"user":"first"}`)
	write(t, pair, secondPEM)
	wantSummary(t, source, `{"user":"second"}`)

	_, err := open(t, given{Address: s.URL, CAFile: ca}).Fetch(t.Context())
	wantError(t, err, s.URL, "certificate required")
}

func TestWhoeverAnswersMustBeTheKubelet(t *testing.T) {
	leaks.None(t)
	s := serveTLS(t, quiet, answerOK)
	fetch := func(o given) error {
		o.Address = s.URL
		_, err := open(t, o).Fetch(t.Context())
		return err
	}
	wantError(t, fetch(given{}), s.URL+"/stats/summary", "unknown authority", "want a certificate-authority")
	wantError(t, fetch(given{CAFile: caFile(t, s), ServerName: "elsewhere"}), "want tls-server-name")
	trusting := open(t, given{Address: s.URL, InsecureSkipVerify: true})
	if _, err := trusting.Fetch(t.Context()); err != nil || !trusting.Unverified() {
		t.Errorf("with insecure-skip-tls-verify: %v, told of: %v", err, trusting.Unverified())
	}
	if err := fetch(given{CAFile: caFile(t, s), ServerName: "example.com"}); err != nil {
		t.Error("with the name in the certificate:", err)
	}
}

func TestARefusalSaysWhatWouldBeRightAndNoSecret(t *testing.T) {
	leaks.None(t)
	const secret = "eyJhbGciOi.very.secret"
	for status, want := range map[int]string{
		http.StatusUnauthorized: "want a token, or a client certificate, that the kubelet accepts",
		http.StatusForbidden:    "may get nodes/stats",
		http.StatusNotFound:     "want the kubelet's /stats/summary",
		http.StatusFound:        "answered 302 Found",
		http.StatusBadGateway:   "want 200",
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			s := serveTLS(t, nil, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Location", "https://127.0.0.1:1/elsewhere")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "you said "+r.Header.Get("Authorization"))
			})
			token := write(t, filepath.Join(t.TempDir(), "token"), secret)
			_, err := open(t, given{Address: s.URL, CAFile: caFile(t, s), TokenFile: token}).Fetch(t.Context())
			wantError(t, err, s.URL, want)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error has the token: %v", err)
			}
		})
	}
}

func TestBadCredentialFilesAreNamed(t *testing.T) {
	s := serveTLS(t, nil, answerOK)
	dir := t.TempDir()
	put := func(name, text string) string { return write(t, filepath.Join(dir, name), text) }
	missing := filepath.Join(dir, "missing")
	empty, words := put("empty", " \n"), put("words", "secret with spaces")
	_, pair := clientPair(t, "some")
	pairFile := put("pair", pair)
	for name, c := range map[string]struct {
		options given
		want    []string
	}{
		"no token file":          {given{TokenFile: missing}, []string{missing}},
		"an empty token":         {given{TokenFile: empty}, []string{"tokenFile " + empty, "want a bearer token"}},
		"a token of three words": {given{TokenFile: words}, []string{"tokenFile " + words, "want a bearer token"}},
		"a directory as token":   {given{TokenFile: dir}, []string{dir, "is a directory, want a regular file"}},
		"no CA file":             {given{CAFile: missing}, []string{"certificate-authority", missing}},
		"a CA file without PEM":  {given{CAFile: words}, []string{s.URL, "certificate-authority", "want PEM"}},
		"a key that is none":     {given{CertFile: pairFile, KeyFile: words}, []string{s.URL, "client-certificate and client-key"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Address = s.URL
			_, err := open(t, c.options).Fetch(t.Context())
			wantError(t, err, c.want...)
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("error has the secret: %v", err)
			}
		})
	}
}

func TestABadAnswerIsAnError(t *testing.T) {
	leaks.None(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"cut short": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"node":{}}`)
		}, "ends early"},
		"cut short in a chunk": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"node":{}}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "ends early"},
		"no answer":  {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "closed without an answer"},
		"empty":      {func(http.ResponseWriter, *http.Request) {}, "want a JSON object"},
		"HTML":       {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, `begins with "<html>"`},
		"half of it": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"node":`) }, "ends early"},
		"a header without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 2*maxHeaderBytes))
		}, "header"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serveTLS(t, quiet, c.answer)
			_, err := open(t, given{Address: s.URL, CAFile: caFile(t, s)}).Fetch(t.Context())
			wantError(t, err, s.URL, c.want)
		})
	}
}

func TestAHungKubeletCostsTheDeadline(t *testing.T) {
	leaks.None(t)
	for name, begin := range map[string]bool{"before the answer": false, "in the body": true} {
		t.Run(name, func(t *testing.T) {
			s := serveTLS(t, nil, func(w http.ResponseWriter, r *http.Request) {
				if begin {
					_, _ = io.WriteString(w, `{"node":`)
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			})
			source := open(t, given{Address: s.URL, CAFile: caFile(t, s), Timeout: 200 * time.Millisecond})
			p := New(source, nodefs.FS{}, func() bool { return false })
			defer p.fetched.Close()
			_, err := p.get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore})
			wantError(t, err, source.name, "no whole answer within 200ms")
		})
	}
}

func TestNoKubeletListens(t *testing.T) {
	leaks.None(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := "https://" + l.Addr().String()
	_ = l.Close()
	_, err = open(t, given{Address: address}).Fetch(t.Context())
	wantError(t, err, address, "connection refused", "want a kubelet that listens there")
}
