package httpserver

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"
)

// end is a connection that knows whether it was closed.
type end struct {
	net.Conn
	name   string
	closed bool
}

func (e *end) Close() error {
	e.closed = true
	return nil
}

type nowhere struct{ net.Listener }

func (nowhere) Addr() net.Addr { return &net.TCPAddr{} }

// A crowd is a listener with connections that were made one second after the other.
type crowd struct {
	*Connections
	now  time.Time
	ends []*end
}

func newCrowd(l Limits) *crowd {
	return &crowd{Connections: newConnections(nowhere{}, l, slog.New(slog.DiscardHandler)), now: time.Now().Add(-time.Hour)}
}

func (c *crowd) comes(peer string) *end {
	e := &end{name: fmt.Sprint(peer, len(c.ends))}
	c.ends = append(c.ends, e)
	c.now = c.now.Add(time.Second)
	c.add(e, peer, c.now)
	return e
}

func TestWhoMakesRoomForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		peers string // one letter for each connection
		comes string
		goes  int // -1 for none
	}{
		"there is room":                        {"aab", "b", -1},
		"the oldest of the peer that has most": {"baaa", "c", 1},
		"its own, over the limit of a peer":    {"baaa", "a", 1},
		"its own, if no peer has more":         {"bbaa", "a", 2},
		"another's, if it has fewer":           {"abbb", "a", 1},
	} {
		t.Run(name, func(t *testing.T) {
			crowd := newCrowd(Limits{Total: 4, PerPeer: 3})
			for _, peer := range c.peers {
				crowd.comes(string(peer))
			}
			last := crowd.comes(c.comes)
			for i, e := range crowd.ends {
				if want := i == c.goes; e.closed != want {
					t.Errorf("%s is closed: %t, want %t", e.name, e.closed, want)
				}
			}
			if last.closed {
				t.Error("the new one was not let in")
			}
			if got, want := crowd.Count(), min(4, len(c.peers)+1); got != want {
				t.Errorf("%d connections count, want %d", got, want)
			}
		})
	}
}

// A peer that asked again and again on its connections kept them, and others waited for 5 s and more.
func TestAConnectionGetsNoYoungerByItsRequests(t *testing.T) {
	c := newCrowd(Limits{Total: 2, PerPeer: 2})
	first, second := c.comes("a"), c.comes("a")
	c.changed(first, http.StateActive)
	third := c.comes("b")
	if !first.closed || second.closed {
		t.Error("the younger one was closed, want the older one, which has a request")
	}
	for _, e := range []*end{second, first, third} { // the server hears of each
		c.changed(e, http.StateClosed)
	}
	c.done.Wait()
	if len(c.open) != 0 {
		t.Errorf("%d connections count, want none", len(c.open))
	}
}

func TestPeersByTheirAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:1": "loopback", "127.1.2.3:1": "loopback", "[::1]:1": "loopback", "[::ffff:127.0.0.1]:1": "loopback",
		"10.1.2.3:4": "10.1.2.3", "[2001:db8:1:2:3::4]:1": "2001:db8:1:2::/64", "[fe80::1%eth0]:1": "fe80::/64",
	} {
		if got, err := Address(from(address)); got != want || err != nil {
			t.Errorf("peer of %s is %q, %v, want %q", address, got, err, want)
		}
	}
	if got, err := Address(from("@")); err == nil {
		t.Errorf("peer of no address is %q", got)
	}
}

type from string

func (f from) RemoteAddr() net.Addr           { return f }
func (f from) Network() string                { return "tcp" }
func (f from) String() string                 { return string(f) }
func (from) Read([]byte) (int, error)         { return 0, nil }
func (from) Write([]byte) (int, error)        { return 0, nil }
func (from) Close() error                     { return nil }
func (from) LocalAddr() net.Addr              { return nil }
func (from) SetDeadline(time.Time) error      { return nil }
func (from) SetReadDeadline(time.Time) error  { return nil }
func (from) SetWriteDeadline(time.Time) error { return nil }

// On a busy machine a request that had arrived, and that its goroutine had not read within 50 ms, was answered by a reset.
func TestARequestThatWasNotReadYetKeepsItsPlace(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	c := newConnections(l, Limits{Total: 1}, slog.New(slog.DiscardHandler))
	for _, asks := range []bool{false, true} {
		if asks {
			if _, err := client.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
				t.Fatal(err)
			}
			for !unread(server) { // the kernel has it in a moment
				runtime.Gosched()
			}
		}
		c.open[server] = &connection{peer: loopback, since: time.Now()}
		if wait := c.wait(loopback); !asks && wait > askTime || asks && wait <= askTime && time.Since(c.open[server].since) < answerTime-askTime {
			t.Errorf("asks %t: others wait for %v, want %v or %v", asks, wait, askTime, answerTime)
		}
	}
	_ = server.Close()
	if unread(server) {
		t.Error("a closed connection has bytes")
	}
}
