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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	source := open(t, Options{Address: s.URL, CAFile: caFile(t, s), TokenFile: token})
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
	source := open(t, Options{Address: s.URL, CAFile: ca, CertFile: pair, KeyFile: pair})
	wantSummary(t, source, `{"user":"first"}`)
	write(t, pair, secondPEM)
	wantSummary(t, source, `{"user":"second"}`)

	_, err := open(t, Options{Address: s.URL, CAFile: ca}).Fetch(t.Context())
	wantError(t, err, s.URL, "certificate required")
}

func TestWhoeverAnswersMustBeTheKubelet(t *testing.T) {
	leaks.None(t)
	s := serveTLS(t, quiet, answerOK)
	fetch := func(o Options) error {
		o.Address = s.URL
		_, err := open(t, o).Fetch(t.Context())
		return err
	}
	wantError(t, fetch(Options{}), s.URL+"/stats/summary", "unknown authority", "want caFile")
	wantError(t, fetch(Options{CAFile: caFile(t, s), ServerName: "elsewhere"}), "want serverName")
	if err := fetch(Options{InsecureSkipVerify: true}); err != nil {
		t.Error("with insecureSkipVerify:", err)
	}
	if err := fetch(Options{CAFile: caFile(t, s), ServerName: "example.com"}); err != nil {
		t.Error("with the name in the certificate:", err)
	}
}

func TestARefusalSaysWhatWouldBeRightAndNoSecret(t *testing.T) {
	leaks.None(t)
	const secret = "eyJhbGciOi.very.secret"
	for status, want := range map[int]string{
		http.StatusUnauthorized: "want a tokenFile, or certFile and keyFile, that the kubelet accepts",
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
			_, err := open(t, Options{Address: s.URL, CAFile: caFile(t, s), TokenFile: token}).Fetch(t.Context())
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
		options Options
		want    []string
	}{
		"no token file":          {Options{TokenFile: missing}, []string{"tokenFile", missing}},
		"an empty token":         {Options{TokenFile: empty}, []string{"tokenFile " + empty, "want a bearer token"}},
		"a token of three words": {Options{TokenFile: words}, []string{"tokenFile " + words, "want a bearer token"}},
		"a directory as token":   {Options{TokenFile: dir}, []string{"tokenFile", dir, "is a directory, want a regular file"}},
		"no CA file":             {Options{CAFile: missing}, []string{"caFile", missing}},
		"a CA file without PEM":  {Options{CAFile: words}, []string{"caFile " + words, "want PEM"}},
		"a key that is none":     {Options{CertFile: pairFile, KeyFile: words}, []string{"certFile " + pairFile, "keyFile " + words}},
	} {
		t.Run(name, func(t *testing.T) {
			c.options.Address = s.URL
			_, err := open(t, c.options).Fetch(t.Context())
			wantError(t, err, append(c.want, s.URL)...)
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
			_, err := open(t, Options{Address: s.URL, CAFile: caFile(t, s)}).Fetch(t.Context())
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
			source := open(t, Options{Address: s.URL, CAFile: caFile(t, s), Timeout: metav1.Duration{Duration: 200 * time.Millisecond}})
			p := New(source, nodefs.FS{}, func() bool { return false })
			defer p.fetched.Close()
			_, err := p.get(t.Context(), eviction.PassView{Pass: 1, View: eviction.ViewBefore})
			wantError(t, err, s.URL, "no whole answer within 200ms")
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
	_, err = open(t, Options{Address: address}).Fetch(t.Context())
	wantError(t, err, address, "connection refused", "want a kubelet that listens there")
}
