package httpserver

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"
)

// closedLogInterval bounds how often displaced connections are logged.
const closedLogInterval = time.Minute

// Without a limit per peer a connection keeps its place for askTime, and one with a request under way
// for answerTime, both from its beginning. Meanwhile others wait in the kernel's queue.
const askTime, answerTime = 50 * time.Millisecond, 250 * time.Millisecond

// pollInterval is the interval at which a waiting connection looks for a place.
const pollInterval = 10 * time.Millisecond

// acceptsPerSecond bounds the cost of connections that are closed soon.
const acceptsPerSecond = 4096

// A peering identifies the peer of a connection.
type peering = func(net.Conn) (string, error)

// Limits bound the resources of clients.
type Limits struct {
	// Total bounds all connections, PerPeer those of one peer; 0 means no limit per peer.
	Total, PerPeer int
	// Peer identifies the peer of a connection. On an error the connection is closed at once.
	Peer peering
	// Request bounds how long a client may send a request, Answer how long it may read the response.
	Request, Answer time.Duration
	// HeaderBytes bounds a request's header.
	HeaderBytes int
}

// Connections is a listener that limits open connections. A new one is always accepted and
// displaces the oldest one: of the same peer, or of the peer that has most. So a peer that holds
// connections, or connects fast, cannot keep others out.
type Connections struct {
	net.Listener

	limits Limits
	log    *slog.Logger
	// done waits for connections that the server still uses.
	done sync.WaitGroup

	mu   sync.Mutex
	open map[net.Conn]*connection

	closed atomic.Int64 // since the last report
	tell   rate.Sometimes
}

type connection struct {
	peer  string
	since time.Time
	busy  bool // a request is under way
}

func newConnections(l net.Listener, limits Limits, log *slog.Logger) *Connections {
	return &Connections{
		Listener: l, limits: limits, log: log, open: make(map[net.Conn]*connection), tell: rate.Sometimes{Interval: closedLogInterval},
	}
}

// Accept returns the next connection, and closes another one if there are too many.
func (c *Connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := c.limits.Peer(conn)
		if err == nil {
			for wait := c.wait(peer); wait > 0; wait = c.wait(peer) {
				<-time.After(min(wait, pollInterval))
			}
			c.add(conn, peer, time.Now())
			return conn, nil
		}
		_ = conn.Close() // nothing was written
		c.log.Debug("connection refused", "address", c.Addr().String(), "error", err)
	}
}

// paced is a listener that accepts connections at a limited rate.
type paced struct {
	net.Listener

	limit *rate.Limiter
}

// Accept implements net.Listener.
func (p paced) Accept() (net.Conn, error) {
	<-time.After(p.limit.Reserve().Delay())
	return p.Listener.Accept()
}

// wait returns the time after which a new connection of peer may displace another one.
func (c *Connections) wait(peer string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	goes := c.limits.displaced(c.open, peer)
	if goes == nil || c.limits.PerPeer > 0 {
		return 0
	}
	stays := askTime
	if c.open[goes].busy || unread(socket(goes)) {
		stays = answerTime
	}
	return stays - time.Since(c.open[goes].since)
}

func (c *Connections) add(conn net.Conn, peer string, now time.Time) {
	c.mu.Lock()
	goes := c.limits.displaced(c.open, peer)
	delete(c.open, goes)
	c.open[conn] = &connection{peer: peer, since: now}
	c.done.Add(1)
	c.mu.Unlock()
	if goes == nil {
		return
	}
	_ = socket(goes).Close() // its server notices
	c.closed.Add(1)
	c.tell.Do(func() {
		c.log.Warn("too many connections, older ones are closed", "address", c.Addr().String(), "peer", peer, "closed", c.closed.Swap(0), "limit", c.limits.Total, "limitPerPeer", c.limits.PerPeer)
	})
}

// unread reports whether a connection has bytes that its server has not read: on a busy machine a request may wait so.
func unread(conn net.Conn) (has bool) {
	of, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) { // it may be closed
		n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		has = err == nil && n > 0
	})
	return has
}

// socket returns the connection below TLS: closing TLS could wait for a peer that does not read.
func socket(conn net.Conn) net.Conn {
	if secured, ok := conn.(*tls.Conn); ok {
		return secured.NetConn()
	}
	return conn
}

func (c *Connections) hangUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = socket(conn).Close() // they are given up
	}
}

// displaced returns the open connection that a new one of peer displaces, nil if there is room.
func (l Limits) displaced(open map[net.Conn]*connection, peer string) net.Conn {
	count := map[string]int{}
	for _, o := range open {
		count[o.peer]++
	}
	from := peer
	switch {
	case l.PerPeer > 0 && count[peer] >= l.PerPeer:
	case len(open) >= l.Total:
		for p, n := range count {
			if n > count[from] {
				from = p
			}
		}
	default:
		return nil
	}
	var goes net.Conn
	for conn, o := range open {
		if o.peer == from && (goes == nil || o.since.Before(open[goes].since)) {
			goes = conn
		}
	}
	return goes
}

// changed implements the server's ConnState.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.open[conn]; ok {
		o.busy = state == http.StateActive
	}
	if state == http.StateClosed { // the last action of a connection's goroutine
		delete(c.open, conn)
		c.done.Done()
	}
}

// Count returns the number of open connections.
func (c *Connections) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Address identifies the peer of a network connection.
func Address(conn net.Conn) (string, error) { return Peer(conn.RemoteAddr().String()) }

// onMachine refuses peers on other machines, which can reach the loopback device where
// route_localnet is set.
func onMachine(conn net.Conn) (string, error) {
	peer, err := Address(conn)
	if err == nil && peer != loopback {
		err = fmt.Errorf("peer %s is not on this machine", peer)
	}
	return peer, err
}

// loopback is the peer of all connections from this machine.
const loopback = "loopback"

// Peer identifies a network peer by the address in IP:port; for IPv6 by the network that one
// machine commonly owns. All addresses of this machine are one peer.
func Peer(address string) (string, error) {
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		return "", err
	}
	ip := remote.Addr().Unmap()
	switch {
	case ip.IsLoopback():
		return loopback, nil
	case ip.Is6():
		network, err := ip.WithZone("").Prefix(64)
		return network.String(), err
	default:
		return ip.String(), nil
	}
}
