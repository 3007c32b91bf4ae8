package httpserver

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// closedLogInterval bounds how often displaced connections are logged.
const closedLogInterval = time.Minute

// placeInterval is the interval at which a new connection looks for a place.
const placeInterval = 10 * time.Millisecond

// Without a limit per peer a connection keeps its place for settleTime, so that a request that was
// just sent is read first; meanwhile new peers wait in the kernel's queue. All programs of this
// machine are one peer. A connection with a request under way keeps its place for answerTime, the
// longest that the requests before it can take.
const settleTime, answerTime = 50 * time.Millisecond, time.Second*mostConnections/requestsPerSecond + 3*turnTime

// Limits bound the resources of clients.
type Limits struct {
	// Total bounds all connections, PerPeer those of one peer; 0 means no limit per peer.
	Total, PerPeer int
	// Peer identifies the peer of a connection. On an error the connection is closed at once.
	Peer func(net.Conn) (string, error)
	// Request bounds how long a client may send a request, Answer how long it may read the response.
	Request, Answer time.Duration
	// HeaderBytes bounds a request's header.
	HeaderBytes int
}

// Connections is a listener that limits open connections. A new one is always accepted and
// displaces an older one: of the same peer, or of the peer that has most; idle ones first. So a
// peer that holds idle connections, or connects fast, cannot keep others out.
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
	peer string
	// busy: a request is under way, and would be lost with the connection.
	busy  bool
	since time.Time // busy, or not
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
			for !c.add(conn, peer, time.Now()) {
				<-time.After(placeInterval)
			}
			return conn, nil
		}
		_ = conn.Close() // nothing was written
		c.log.Debug("connection refused", "address", c.Addr().String(), "error", err)
	}
}

// add reports whether there is a place for conn, and if so takes it.
func (c *Connections) add(conn net.Conn, peer string, now time.Time) bool {
	c.mu.Lock()
	goes := c.limits.displaced(c.open, peer)
	if goes != nil && c.limits.PerPeer == 0 && now.Sub(c.open[goes].since) < c.open[goes].stays() {
		c.mu.Unlock()
		return false
	}
	delete(c.open, goes)
	c.open[conn] = &connection{peer: peer, since: now}
	c.done.Add(1)
	c.mu.Unlock()
	if goes == nil {
		return true
	}
	_ = socket(goes).Close() // its server notices
	c.closed.Add(1)
	c.tell.Do(func() {
		attrs := []any{"address", c.Addr().String(), "peer", peer, "closed", c.closed.Swap(0), "limit", c.limits.Total}
		if c.limits.PerPeer > 0 { // else there is none
			attrs = append(attrs, "limitPerPeer", c.limits.PerPeer)
		}
		c.log.Warn("too many connections, older ones are closed", attrs...)
	})
	return true
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
		if o.peer == from && (goes == nil || o.before(open[goes])) {
			goes = conn
		}
	}
	return goes
}

// stays returns the minimum time for which o keeps its place.
func (o *connection) stays() time.Duration {
	if o.busy {
		return answerTime
	}
	return settleTime
}

// before reports whether o is displaced before other.
func (o *connection) before(other *connection) bool {
	if o.busy != other.busy {
		return other.busy
	}
	return o.since.Before(other.since)
}

// changed implements the server's ConnState.
func (c *Connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed {
		// The last action of a connection's goroutine.
		delete(c.open, conn)
		c.done.Done()
		return
	}
	if o, ok := c.open[conn]; ok && o.busy != (state == http.StateActive) {
		o.busy, o.since = !o.busy, time.Now()
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
		return "loopback", nil
	case ip.Is6():
		network, err := ip.WithZone("").Prefix(64)
		return network.String(), err
	default:
		return ip.String(), nil
	}
}
