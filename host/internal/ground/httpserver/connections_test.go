package httpserver

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

func (c *crowd) comes(peer string, state http.ConnState) *end {
	e := &end{name: fmt.Sprint(peer, len(c.ends))}
	c.ends = append(c.ends, e)
	c.now = c.now.Add(time.Second)
	c.add(e, peer, c.now)
	c.open[e].busy = state == http.StateActive
	return e
}

func TestWhoMakesRoomForAnother(t *testing.T) {
	for name, c := range map[string]struct {
		peers  string // one letter for each connection
		states []http.ConnState
		comes  string
		goes   int // -1 for none
	}{
		"there is room": {peers: "aab", comes: "b", goes: -1},
		"the oldest idle one of who has most": {
			peers: "baaa", comes: "c", goes: 2,
			states: []http.ConnState{http.StateIdle, http.StateActive, http.StateIdle, http.StateIdle},
		},
		"who has not asked yet goes as one who is idle": {
			peers: "aaba", comes: "c", goes: 0,
			states: []http.ConnState{http.StateNew, http.StateActive, http.StateNew, http.StateIdle},
		},
		"who has not asked yet before who waits for an answer": {
			peers: "aaba", comes: "c", goes: 3,
			states: []http.ConnState{http.StateActive, http.StateActive, http.StateActive, http.StateNew},
		},
		"the oldest, if all wait for answers": {
			peers: "aaba", comes: "c", goes: 0,
			states: []http.ConnState{http.StateActive, http.StateActive, http.StateActive, http.StateActive},
		},
		"its own, over the limit of a peer": {
			peers: "baaa", comes: "a", goes: 1,
			states: []http.ConnState{http.StateIdle, http.StateActive, http.StateActive, http.StateActive},
		},
		"its own below the limit of a peer, if nobody has more": {
			peers: "bbaa", comes: "a", goes: 2,
			states: []http.ConnState{http.StateIdle, http.StateIdle, http.StateIdle, http.StateIdle},
		},
	} {
		t.Run(name, func(t *testing.T) {
			crowd := newCrowd(Limits{Total: 4, PerPeer: 3})
			for i, peer := range c.peers {
				state := http.StateNew
				if c.states != nil {
					state = c.states[i]
				}
				crowd.comes(string(peer), state)
			}
			last := crowd.comes(c.comes, http.StateNew)
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

func TestWhoIsDoneDoesNotCount(t *testing.T) {
	c := newCrowd(Limits{Total: 2})
	first, second := c.comes("a", http.StateActive), c.comes("a", http.StateActive)
	c.changed(second, http.StateIdle)
	if e := (&end{}); c.add(e, "b", time.Now()) {
		t.Error("another one was let in at once, want it to wait: who has just connected is about to ask")
	}
	c.now = time.Now().Add(settleTime)
	third := c.comes("b", http.StateNew)
	if first.closed || !second.closed {
		t.Error("the one that waits for an answer was closed, want the idle one")
	}
	for _, e := range []*end{second, first, third} { // the server hears of each
		c.changed(e, http.StateClosed)
	}
	c.done.Wait()
	if c.Count() != 0 {
		t.Errorf("%d connections count, want none", c.Count())
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
