package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/evictd/evictd/host/internal/input"
)

// handshakesPerSecond bounds what connections cost whose peers have shown no token yet: a handshake
// takes a tenth of a millisecond, and the CPU is needed for decisions.
const handshakesPerSecond = 50

// requestsPerSecond are of all peers together, others wait: any peer may ask as fast as it
// can. Those that wait go on together, every turnTime: to wake for each by itself costs more than to
// answer it.
const (
	requestsPerSecond = 100
	turnTime          = 100 * time.Millisecond
)

// Options say where an Endpoint listens and who it is.
type Options struct {
	// Address is IP:port.
	Address string
	// CertFile and KeyFile are PEM, both "" for a self-signed certificate.
	CertFile, KeyFile string
	NodeName          string
	Log               *slog.Logger
}

// An Endpoint listens on an address. On one of the loopback device it serves plain HTTP, or TLS if
// there are files. On any other one it serves TLS, and processes of this machine plain HTTP on the
// loopback device at the same port: the commands of evictd need neither a token nor an API server.
type Endpoint struct {
	listeners []net.Listener
	loopback  bool
	tls       *certificate // nil for plain HTTP
	log       *slog.Logger
}

// Listen opens the endpoint. It must be closed, and is by Serve.
func Listen(ctx context.Context, o Options) (*Endpoint, error) {
	e, err := listen(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("listenAddress %q: %w", o.Address, err)
	}
	return e, nil
}

func listen(ctx context.Context, o Options) (*Endpoint, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.Address)
	if err != nil {
		return nil, err
	}
	e := &Endpoint{listeners: []net.Listener{l}, loopback: local(l.Addr()), log: o.Log}
	at, _ := l.Addr().(*net.TCPAddr) // as all of tcp
	if e.loopback && o.CertFile == "" {
		return e, nil
	}
	e.tls = &certificate{certFile: o.CertFile, keyFile: o.KeyFile, node: o.NodeName, ip: at.IP}
	if err := e.tls.update(time.Now(), input.ReadFileSoon); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if e.loopback || at.IP.IsUnspecified() { // which has the loopback device's in it
		return e, nil
	}
	own := "127.0.0.1"
	if at.IP.To4() == nil {
		own = "::1"
	}
	plain, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(own, strconv.Itoa(at.Port)))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("for the commands of evictd on this node: %w", err), e.Close())
	}
	e.listeners = append(e.listeners, plain)
	return e, nil
}

// Addr returns the address that was asked for, with its port.
func (e *Endpoint) Addr() net.Addr { return e.listeners[0].Addr() }

// Close ends an endpoint that is not served, and nothing if e is nil.
func (e *Endpoint) Close() error {
	if e == nil {
		return nil
	}
	var errs []error
	for _, l := range e.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Serve answers until ctx ends: those on the loopback device by own, all others by remote.
func (e *Endpoint) Serve(ctx context.Context, own, remote http.Handler) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	handler := onlyLocalNames(own)
	if !e.loopback {
		plain := handler
		handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.TLS == nil {
				plain.ServeHTTP(w, r)
				return
			}
			remote.ServeHTTP(w, r)
		})
	}
	handler = paced(handler, rate.NewLimiter(requestsPerSecond, mostConnections))
	var running sync.WaitGroup
	errs := make([]error, len(e.listeners))
	for i, l := range e.listeners {
		if e.tls != nil {
			l = secured{l, e.tls.config(), rate.NewLimiter(handshakesPerSecond, mostConnections), !e.loopback}
		}
		running.Go(func() {
			defer end() // the other one as well
			errs[i] = serve(ctx, l, handler, e.log)
		})
	}
	if e.tls != nil {
		running.Go(func() { e.tls.follow(ctx, e.log) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// paced has requests wait so that no more are answered than limit lets.
func paced(h http.Handler, limit *rate.Limiter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		turn := limit.Reserve()
		if wait := turn.Delay(); wait > 0 {
			now := time.Now()
			select {
			case <-time.After(now.Add(wait).Truncate(turnTime).Add(turnTime).Sub(now)):
			case <-r.Context().Done(): // the client is gone
				turn.Cancel()
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// secured is a listener of TLS, but for connections within the loopback device if plainLocal.
type secured struct {
	net.Listener

	config     *tls.Config
	handshakes *rate.Limiter
	plainLocal bool
}

// Accept implements net.Listener. It does not wait for the handshake. Both ends have to be on the
// loopback device: with route_localnet, as kube-proxy sets it, other machines reach 127.0.0.1.
func (s secured) Accept() (net.Conn, error) {
	for {
		conn, err := s.Listener.Accept()
		if err != nil || s.plainLocal && local(conn.LocalAddr()) && local(conn.RemoteAddr()) {
			return conn, err
		}
		if s.handshakes.Allow() {
			return tls.Server(conn, s.config), nil
		}
		_ = conn.Close() // nothing was written
	}
}
