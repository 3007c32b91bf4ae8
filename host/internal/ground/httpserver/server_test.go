package httpserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/netutil"
)

// maxWait bounds a test's wait for something that takes milliseconds.
const maxWait = 20 * time.Second

type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

// start returns the address of a server that ends with the test.
func start(t *testing.T, h http.Handler) (address string, log *lines) {
	t.Helper()
	return open(t, Options{Address: "127.0.0.1:0"}, h)
}

// open is start with an endpoint of any kind.
func open(t *testing.T, o Options, h http.Handler) (address string, log *lines) {
	t.Helper()
	log = &lines{}
	o.NodeName, o.Log = "node-1", slog.New(slog.NewJSONHandler(log, nil))
	e, err := Listen(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Serve(ctx, h) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return e.Addr(), log
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(maxWait))
	return c
}

// ask sends one request and returns the whole answer.
func ask(t *testing.T, address, host string) string {
	t.Helper()
	c := dial(t, address)
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

var quiet = slog.New(slog.DiscardHandler)

var fine = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })

// Anybody on the node held 21,000 idle connections, and evictd could open neither
// manifests nor its journal until he left.
func TestIdleConnectionsUseUpNoDescriptors(t *testing.T) {
	t.Parallel() // the scraper waits for their time
	accepted := make(chan struct{}, 5*mostConnections)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- serve(ctx, netutil.LimitListener(counting{l, accepted}, mostConnections), fine, quiet)
	}()
	for range mostConnections {
		dial(t, l.Addr().String())
	}
	for len(accepted) < mostConnections {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	answer := ask(t, l.Addr().String(), "localhost")
	if took := time.Since(began); !strings.HasSuffix(answer, "fine") || took < headerTimeout/2 { // the first of them came before
		t.Errorf("a scraper got %q after %v, want it to wait for the end of the first idle connections", answer, took)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A counting listener tells of each connection that it has accepted.
type counting struct {
	net.Listener

	accepted chan struct{}
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	c.accepted <- struct{}{}
	return conn, err
}

// Four scrapers that did not read their answers switched /metrics off.
func TestStalledReadersHoldNothingThatOthersNeed(t *testing.T) {
	const slots, stalled = 4, 12
	inside := make(chan struct{}, slots)
	large := bytes.Repeat([]byte("x"), 16<<20) // more than sockets keep
	wrote := make(chan struct{}, stalled)
	address, _ := start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case inside <- struct{}{}:
		default:
			http.Error(w, "no slot", http.StatusServiceUnavailable)
			return
		}
		defer func() { <-inside }()
		if r.URL.Path == "/large" {
			_, _ = w.Write(large)
			defer func() { wrote <- struct{}{} }()
			return
		}
		_, _ = io.WriteString(w, "fine")
	}))
	for range stalled {
		c := dial(t, address)
		_ = c.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := io.WriteString(c, "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wrote:
		case <-time.After(answerTimeout / 3):
			t.Fatal("an answer that nobody reads keeps its slot")
		}
	}
	if answer := ask(t, address, "localhost"); !strings.HasSuffix(answer, "fine") {
		t.Errorf("a scraper beside stalled ones got %.200q", answer)
	}
}

// net/http wrote plain text into the JSON log.
func TestErrorsOfTheServerAreLinesOfTheLog(t *testing.T) {
	address, log := start(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a bug") }))
	c := dial(t, address)
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, c) // its end comes after the line
	if got := log.String(); !strings.HasPrefix(got, `{"time":`) || !strings.Contains(got, "a bug") || strings.Count(got, "\n") != 1 {
		t.Errorf("log %q, want one line of JSON with the panic", got)
	}
}
