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

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// Handshakes are paid for before a token is shown: one takes a tenth of a millisecond, and decisions
// need the CPU. Each peer has its own share, and the last peersKnown are remembered.
const (
	handshakesPerSecond, handshakesAtOnce = 10, 16
	peersKnown                            = 1024
)

// requestsPerSecond bounds the cost of answers, which is a tenth of a millisecond each.
const requestsPerSecond = 1000

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
	if e.Loopback() {
		return e.serve(ctx, h, onMachine, 0)
	}
	return e.serve(ctx, h, Address, mostPerPeer)
}

func (e *Endpoint) serve(ctx context.Context, h http.Handler, peer peering, perPeer int) error {
	l := net.Listener(paced{e.listener, rate.NewLimiter(acceptsPerSecond, mostConnections)})
	var following sync.WaitGroup
	defer following.Wait()
	if e.tls != nil {
		ctx, end := context.WithCancel(ctx)
		defer end()
		following.Go(func() { e.tls.follow(ctx, e.log) })
		l = secured{l, e.tls.config(), peer, lru.New(peersKnown)}
	}
	limit := rate.NewLimiter(requestsPerSecond, mostConnections)
	return serve(ctx, l, peer, perPeer, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if limit.Wait(r.Context()) == nil { // else the client is gone
			h.ServeHTTP(w, r)
		}
	}), e.log)
}

// secured is a TLS listener.
type secured struct {
	net.Listener

	config *tls.Config
	peer   peering
	peers  *lru.Cache // of *rate.Limiter by peer
}

// Accept implements net.Listener. It does not wait for the handshake.
func (s secured) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if peer, err := s.peer(conn); err == nil && s.allows(peer) {
			return tls.Server(conn, s.config), nil
		}
		_ = conn.Close() // nothing was written
	}
}

// allows reports whether a peer may begin a handshake.
func (s secured) allows(peer string) bool {
	limit, known := s.peers.Get(peer)
	if !known {
		limit = rate.NewLimiter(handshakesPerSecond, handshakesAtOnce)
		s.peers.Add(peer, limit)
	}
	return limit.(*rate.Limiter).Allow()
}
