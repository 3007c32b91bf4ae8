package httpserver

import (
	"cmp"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// closedLogInterval keeps who opens too many connections from filling the log.
const closedLogInterval = time.Minute

// Limits are how many connections there may be at once.
type Limits struct {
	// Total is of all peers, PerPeer of one of them; 0 is no limit for one.
	Total, PerPeer int
	// Peer names who is at the other end. One that it refuses is closed at once.
	Peer func(net.Conn) (string, error)
}

// Connections is a listener that never holds more connections than it may. A new
// one is always let in, in the place of an older one: of the peer's own, or of the
// peer that has most; what is idle goes first. So whoever holds connections for
// nothing cannot keep others out. Its server must have Changed as ConnState.
type Connections struct {
	net.Listener

	limits Limits
	log    *slog.Logger
	// served counts those that the server has not done with.
	served sync.WaitGroup

	mu     sync.Mutex
	open   map[net.Conn]*connection
	closed int       // since told
	told   time.Time // of closed ones
}

// A connection is what is known of one that is open.
type connection struct {
	peer  string
	state http.ConnState
	since time.Time // in that state
}

// NewConnections takes the listener over.
func NewConnections(l net.Listener, limits Limits, log *slog.Logger) *Connections {
	return &Connections{Listener: l, limits: limits, log: log, open: make(map[net.Conn]*connection)}
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
			c.add(conn, peer, time.Now())
			return conn, nil
		}
		_ = conn.Close() // nothing was written
		c.log.Debug("connection refused", "address", c.Addr().String(), "error", err)
	}
}

func (c *Connections) add(conn net.Conn, peer string, now time.Time) {
	c.served.Add(1)
	c.mu.Lock()
	goes := c.limits.displaced(c.open, peer)
	delete(c.open, goes)
	c.open[conn] = &connection{peer: peer, state: http.StateNew, since: now}
	told := 0
	if goes != nil {
		c.closed++
		if now.Sub(c.told) >= closedLogInterval {
			told, c.closed, c.told = c.closed, 0, now
		}
	}
	c.mu.Unlock()
	if goes != nil {
		_ = goes.Close() // its server sees it
	}
	if told > 0 {
		attrs := []any{"address", c.Addr().String(), "peer", peer, "closed", told, "limit", c.limits.Total}
		if c.limits.PerPeer > 0 { // else there is none
			attrs = append(attrs, "limitPerPeer", c.limits.PerPeer)
		}
		c.log.Warn("too many connections, older ones are closed", attrs...)
	}
}

// displaced returns the connection of open that another one of peer takes the place
// of, nil if there is room.
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
	var (
		goes net.Conn
		is   *connection
	)
	for conn, o := range open {
		if o.peer == from && (is == nil || before(o, is) < 0) {
			goes, is = conn, o
		}
	}
	return goes
}

// before orders connections by who goes first.
func before(a, b *connection) int {
	return cmp.Or(cmp.Compare(use(a.state), use(b.state)), a.since.Compare(b.since))
}

// use is 1 while a request is under way: without the connection it is lost.
func use(s http.ConnState) int {
	if s == http.StateActive {
		return 1
	}
	return 0
}

// Changed is the server's ConnState.
func (c *Connections) Changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if state == http.StateClosed {
		// The last thing that the goroutine of a connection does.
		delete(c.open, conn)
		c.served.Done()
		return
	}
	if o, ok := c.open[conn]; ok && o.state != state {
		o.state, o.since = state, time.Now()
	}
}

// Count is how many connections are open.
func (c *Connections) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// Wait returns when the server, which accepts no more, has done with all connections.
func (c *Connections) Wait() { c.served.Wait() }

// Address names a peer on the network by its address: of version 6 by the network
// that one machine commonly has for itself. All of one machine's own are one peer.
func Address(conn net.Conn) (string, error) {
	remote, err := netip.ParseAddrPort(conn.RemoteAddr().String())
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
