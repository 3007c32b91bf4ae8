package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/time/rate"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// acceptsPerSecond bounds the cost of connections: an answer takes up to some milliseconds, a handshake a tenth of one, and
// decisions need the CPU.
const acceptsPerSecond = 20

// Options configures the address and identity of an Endpoint.
type Options struct {
	// Key is the key of the configuration that has the address, for errors.
	Key string
	// Address is IP:port.
	Address string
	// TLS serves TLS: on a loopback address with files only.
	TLS bool
	// CertFile and KeyFile are PEM, both "" for a self-signed certificate.
	CertFile, KeyFile string
	NodeName          string
	Log               *slog.Logger
}

// An Endpoint listens on an address for peers of any machine.
type Endpoint struct {
	listener net.Listener
	tls      *certificate // nil for plain HTTP
	log      *slog.Logger
}

// Listen opens the endpoint, nil without an address. The caller must call Serve, which closes it, or
// Close.
func Listen(ctx context.Context, o Options) (*Endpoint, error) {
	if o.Address == "" {
		return nil, nil //nolint:nilnil // a nil Endpoint serves nothing
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", o.Key, o.Address, err)
	}
	e := &Endpoint{listener: l, log: o.Log}
	if !o.TLS || e.Loopback() && o.CertFile == "" {
		return e, nil
	}
	at, _ := l.Addr().(*net.TCPAddr) // as all of tcp
	e.tls = &certificate{certFile: o.CertFile, keyFile: o.KeyFile, node: o.NodeName, ip: at.IP}
	if err := e.tls.update(time.Now(), input.ReadFileSoon); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Addr returns the address that is listened on, with its port, "" for none.
func (e *Endpoint) Addr() string {
	if e == nil {
		return ""
	}
	return e.listener.Addr().String()
}

// Loopback reports whether only processes on this machine can reach the endpoint.
func (e *Endpoint) Loopback() bool {
	at, ok := e.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// Close closes an endpoint that is not served. e may be nil.
func (e *Endpoint) Close() error {
	if e == nil {
		return nil
	}
	if err := e.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// Serve answers requests with h until ctx ends. e may be nil.
func (e *Endpoint) Serve(ctx context.Context, h http.Handler) error {
	if e == nil {
		return nil
	}
	l := netutil.LimitListener(paced{e.listener, rate.NewLimiter(acceptsPerSecond, mostConnections), e.Loopback()}, most())
	var following sync.WaitGroup
	defer following.Wait()
	if e.tls != nil {
		ctx, end := context.WithCancel(ctx)
		defer end()
		following.Go(func() { e.tls.follow(ctx, e.log) })
		l = tls.NewListener(l, e.tls.config())
	}
	return serve(ctx, l, h, e.log)
}

// paced is a listener that accepts connections at a limited rate.
type paced struct {
	net.Listener

	limit *rate.Limiter
	// own: peers must be on this machine. Others can reach the loopback device where route_localnet is set.
	own bool
}

// Accept implements net.Listener.
func (p paced) Accept() (net.Conn, error) {
	for {
		<-time.After(p.limit.Reserve().Delay())
		conn, err := p.Listener.Accept()
		if err != nil || !p.own || onMachine(conn) {
			return conn, err
		}
		_ = conn.Close() // nothing was written
	}
}

func onMachine(conn net.Conn) bool {
	peer, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && peer.IP.IsLoopback()
}
