package httpserver

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/evictd/evictd/host/internal/ground/input"
)

// handshakesPerSecond bounds the cost of connections without a valid token: a handshake takes a
// tenth of a millisecond, and decisions need the CPU.
const handshakesPerSecond = 50

// requestsPerSecond bounds the requests of all peers together; others wait, since any peer may send
// requests fast. Waiting requests continue together, every turnTime: waking up for each costs more
// than answering it.
const (
	requestsPerSecond = 100
	turnTime          = 100 * time.Millisecond
)

// Options configures the address and identity of an Endpoint.
type Options struct {
	// Address is IP:port.
	Address string
	// CertFile and KeyFile are PEM, both "" for a self-signed certificate.
	CertFile, KeyFile string
	NodeName          string
	Log               *slog.Logger
}

// An Endpoint listens on an address. On a loopback address it serves plain HTTP, or TLS if there
// are files. On any other it serves TLS, plus plain HTTP for this machine on the loopback device at
// the same port: evictd's commands need neither a token nor an API server.
type Endpoint struct {
	listeners []net.Listener
	loopback  bool
	tls       *certificate // nil for plain HTTP
	log       *slog.Logger
}

// Listen opens the endpoint. The caller must call Serve, which closes it, or Close.
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
	if e.loopback || at.IP.IsUnspecified() { // which includes the loopback device
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

// Addr returns the requested address, with its port.
func (e *Endpoint) Addr() net.Addr { return e.listeners[0].Addr() }

// Close closes an endpoint that is not served. e may be nil.
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

// Serve answers requests until ctx ends: on the loopback device with own, else with remote.
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

// paced delays requests to the rate of limit.
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

// secured is a TLS listener, but plain within the loopback device if plainLocal is set.
type secured struct {
	net.Listener

	config     *tls.Config
	handshakes *rate.Limiter
	plainLocal bool
}

// Accept implements net.Listener. It does not wait for the handshake. Both ends must be on the
// loopback device: with route_localnet, as kube-proxy sets it, other machines can reach 127.0.0.1.
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

// Ask requests a page from an Endpoint on this machine that listens on host and port, without a
// token. The caller closes the response's body.
func Ask(ctx context.Context, host, port, page string) (*http.Response, error) {
	at := net.JoinHostPort(onLoopback(host), port) + page
	answer, err := get(ctx, "http://"+at)
	if err != nil || answer.StatusCode != http.StatusBadRequest {
		return answer, err
	}
	why, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	_ = answer.Body.Close()                          // read only
	if bytes.Contains(why, []byte("HTTPS server")) { // net/http's text: the loopback device with certificate files
		return get(ctx, "https://"+at)
	}
	answer.Body = io.NopCloser(bytes.NewReader(why))
	return answer, nil
}

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{
		Proxy: nil, DisableKeepAlives: true,
		// On the loopback device a certificate proves no more than owning the port.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // on the loopback device
	}}
	return client.Do(req)
}

// onLoopback returns the loopback address for requests to an Endpoint on host.
func onLoopback(host string) string {
	switch ip, err := netip.ParseAddr(host); {
	case host != "" && (err != nil || ip.IsLoopback()):
		return host
	case host == "" || ip.Is4():
		return "127.0.0.1"
	default:
		return "::1"
	}
}
