package summary

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/summaryapi"

	"github.com/evictd/evictd/test/harness/leaks"
)

func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", s.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(maxWait))
	return c
}

// One process, or one that forks, held all connections and kept the others out.
func TestAProcessHasFewConnections(t *testing.T) {
	leaks.None(t)
	s := serve(t, counting())
	s.Begin(eviction.PassView{Pass: 1, View: before})
	held := make([]net.Conn, 3*maxPerProcess)
	for i := range held {
		held[i] = dial(t, s)
	}
	for _, c := range held[:len(held)-maxPerProcess] {
		if n, err := c.Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Fatalf("read %d bytes, %v from one of the older connections over the limit, want them closed", n, err)
		}
	}
	if n := s.http.Count(); n != maxPerProcess {
		t.Errorf("%d connections, want %d", n, maxPerProcess)
	}
	wantReply(t, ask(t, plugin(t, s), "pass=1&view=before"), `200 {"fetch":1}`)
}

func TestAnotherProcessIsAnotherPeer(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if name, err := process(near); err == nil {
		t.Errorf("a pipe is of %q", name)
	}
	dir := socketDir(t)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	of, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer of.Close()
	if name, err := process(of); err != nil || name != fmt.Sprint("pid ", os.Getpid()) {
		t.Errorf("the peer is %q, %v, want this process", name, err)
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
			leaks.None(t)
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
			if took := time.Since(began); took > requestTimeout-time.Second {
				t.Errorf("the connection ended after %v", took)
			}
		})
	}
}

func TestCloseDoesNotWaitForAClientThatDoesNotRead(t *testing.T) {
	leaks.None(t)
	large := []byte("{" + strings.Repeat(" ", 8<<20) + "}")
	s := serve(t, func(context.Context) ([]byte, error) { return large, nil })
	s.Begin(eviction.PassView{Pass: 1, View: before})
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
	leaks.None(t)
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
			s.Begin(eviction.PassView{Pass: pass, View: before})
			s.SetLayout(summaryapi.Layout{ImageFsErr: "not yet"})
			_, _ = s.answers.get(t.Context(), eviction.PassView{Pass: pass, View: before})
			s.Begin(eviction.PassView{Pass: pass, View: after})
		})
	}
	all.Wait()
}
