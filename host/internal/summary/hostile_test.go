package summary

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// count is how many connections are open.
func (c *connections) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.of)
}

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

func TestAProcessHasFewConnections(t *testing.T) {
	noLeak(t)
	s := serve(t, counting())
	s.Begin(1, before)
	held := make([]net.Conn, maxPerProcess)
	for i := range held {
		held[i] = dial(t, s)
	}
	if !eventually(func() bool { return s.connections.count() == maxPerProcess }) {
		t.Fatalf("%d connections, want %d", s.connections.count(), maxPerProcess)
	}
	if n, err := dial(t, s).Read(make([]byte, 1)); err == nil {
		t.Errorf("read %d bytes from a connection over the limit, want it closed", n)
	}
	_ = held[0].Close()
	if !eventually(func() bool { return s.connections.count() < maxPerProcess }) {
		t.Fatal("a closed connection counts")
	}
	wantReply(t, ask(t, plugin(t, s), "pass=1&view=before"), `200 {"fetch":1}`)
}

func TestAnotherProcessHasItsOwnConnections(t *testing.T) {
	c := newConnections(nil, nil)
	ends := make([]net.Conn, maxConnections+1)
	for i := range ends {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		ends[i] = near
	}
	for i := range maxConnections {
		if err := c.add(ends[i], int32(i/maxPerProcess)); err != nil {
			t.Fatal(err)
		}
	}
	wantError(t, c.add(ends[maxConnections], 0), "process has 16 connections already")
	wantError(t, c.add(ends[maxConnections], 1000), "there are 128 connections already")
	c.changed(ends[0], http.StateClosed)
	if err := c.add(ends[maxConnections], 1000); err != nil {
		t.Error(err)
	}
}

func TestAHostileClientEndsItsOwnConnection(t *testing.T) {
	for name, text := range map[string]string{
		"not HTTP":      "\x16\x03\x01 nonsense\r\n\r\n",
		"a huge header": "GET /summary HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 3*maxRequestBytes) + "\r\n\r\n",
		"a body that hangs": "POST /summary?pass=1&view=before HTTP/1.1\r\nHost: x\r\n" +
			"Content-Length: 100000\r\n\r\n",
		"chunks that hang": "GET /summary?pass=1&view=before HTTP/1.1\r\nHost: x\r\n" +
			"Transfer-Encoding: chunked\r\n\r\n5\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			noLeak(t)
			s := serve(t, counting())
			c := dial(t, s)
			began := time.Now()
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(c) // a reset is as good
			if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 4") {
				t.Errorf("answer %.100q, want status 4xx", answer)
			}
			if took := time.Since(began); took > headerTimeout-time.Second {
				t.Errorf("the connection ended after %v", took)
			}
		})
	}
}

func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	noLeak(t)
	large := []byte("{" + strings.Repeat(" ", 8<<20) + "}")
	s := serve(t, func(context.Context) ([]byte, error) { return large, nil })
	s.Begin(1, before)
	stuck := dial(t, s)
	if _, err := io.WriteString(stuck, "GET /summary?pass=1&view=before HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(stuck).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > closeTimeout+2*time.Second {
		t.Errorf("Close took %v, want about %v", took, closeTimeout)
	}
}

func TestEverythingAtOnce(t *testing.T) {
	noLeak(t)
	s := serve(t, counting())
	var all sync.WaitGroup
	for range 4 {
		c := plugin(t, s)
		all.Go(func() {
			for range 50 {
				for _, view := range []string{"before", "after-reclaim"} {
					r, err := try(t.Context(), c, "pass=3&view="+view)
					if err == nil && r.status != http.StatusOK && r.status != http.StatusNotFound {
						t.Errorf("answer %q", r)
					}
				}
			}
		})
	}
	for pass := range uint64(6) {
		all.Go(func() {
			s.Begin(pass, before)
			s.SetLayout(Layout{ImageFsErr: "not yet"})
			_, _ = s.Bytes(t.Context(), pass, before)
			s.Begin(pass, after)
		})
	}
	all.Wait()
}
