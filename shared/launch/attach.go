package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// MaxSocketPath is the maximum length of a socket's path in bytes.
const MaxSocketPath = 107

var errOneConnection = errors.New("the connection has ended")

// A Peer is a plugin that another program has started, connected by the socket that it listens on. There is one
// connection, without TLS, and its end is the plugin's.
type Peer struct {
	*grpc.ClientConn

	// Ucred identifies the process that listens: its PID is 0 if it is in no PID namespace that is visible here.
	unix.Ucred

	ended chan struct{}
	once  sync.Once
	// flood names what it sent too much of, nil if it did not.
	flood atomic.Pointer[error]
}

// Attach connects to the plugin that listens on a socket. It returns the error of trusted, which gets the
// credentials of the process that listens, before anything is sent.
func Attach(ctx context.Context, socket string, trusted func(unix.Ucred) error) (*Peer, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return nil, fmt.Errorf("%s: no process listens on it: %w", socket, unix.ECONNREFUSED)
	case err != nil:
		return nil, err
	}
	p := &Peer{ended: make(chan struct{})}
	if err = p.identify(conn); err == nil {
		err = trusted(p.Ucred)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	first := make(chan net.Conn, 1)
	first <- &endingConn{Conn: conn, peer: p}
	p.ClientConn, err = dial(LimitFrames(insecure.NewCredentials(), p.flooded), func(context.Context) (net.Conn, error) {
		select {
		case c := <-first:
			return c, nil
		default:
			return nil, errOneConnection
		}
	}, grpc.WithIdleTimeout(0))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := established(ctx, p.ClientConn); err != nil {
		_, _ = p.Close(), conn.Close() // gRPC may not have taken it
		return nil, err
	}
	return p, nil
}

// identify reads the credentials of the process that listens.
func (p *Peer) identify(conn net.Conn) error {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err = cmp.Or(err, failed); err == nil {
		p.Ucred = *cred
	}
	return err
}

// flooded ends the connection to a plugin that sends more than it may.
func (p *Peer) flooded(what error) { p.flood.Store(&what) }

// Exited is closed when the connection has ended.
func (p *Peer) Exited() <-chan struct{} { return p.ended }

// WaitFor reports whether the connection has ended, waiting for at most d.
func (p *Peer) WaitFor(d time.Duration) bool { return waitFor(p.ended, d) }

// Ending says how the connection ended, "" if it has not.
func (p *Peer) Ending() string {
	if !waitFor(p.ended, 0) {
		return ""
	}
	if flood := p.flood.Load(); flood != nil {
		return fmt.Sprintf("hung up on: it had sent %v", *flood)
	}
	return "its connection ended"
}

// endingConn tells its Peer when it is closed, which gRPC does after any error.
type endingConn struct {
	net.Conn

	peer *Peer
}

// Close implements net.Conn.
func (c *endingConn) Close() error {
	c.peer.once.Do(func() { close(c.peer.ended) })
	return c.Conn.Close()
}
