package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/wire"
)

// readyTime is what a plugin has from its start to its handshake.
const readyTime = 10 * time.Second

// A subject is a plugin that can be called: a process with a connection, or a
// value that is served here.
type subject struct {
	options *Options
	node    eviction.NodeFacts
	cc      *grpc.ClientConn
	client  *wire.Client
	// plugin is what it described itself to be, with calls in its fields.
	plugin eviction.Plugin

	since time.Time // before it was there
	proc  *process  // nil for a value
	from  *origin
	// redial makes another connection to the process.
	redial func() (*grpc.ClientConn, error)
	end    func()
	// measured is the answer of a Measure that several checks look at.
	measured *transcript
	watched  *watched
	steady   *steadiness
	before   usage // of the process, once it was warm
}

// call calls an RPC of the service with raw bytes.
func (s *subject) call(ctx context.Context, rpc string, in message) ([]byte, error) {
	out, err := unary(ctx, s.cc, service+rpc, in)
	return out, rpcError(ctx, err)
}

// offering lists the signals for which the plugin offers c.
func (s *subject) offering(c eviction.Capability) []eviction.Signal {
	var out []eviction.Signal
	for _, spec := range s.plugin.Signals {
		if s.plugin.For(spec.Signal).Has(c) {
			out = append(out, spec.Signal)
		}
	}
	return out
}

// describe asks the plugin what it is.
func (s *subject) describe(ctx context.Context) error {
	return s.options.within(ctx, describeTime, func(ctx context.Context) error {
		p, err := s.client.Describe(ctx, eviction.Host{Version: hostVersion})
		if err == nil {
			s.plugin = p
		}
		return err
	})
}

// hostVersion is what plugins read in Describe.
const hostVersion = "conformance"

// configure gives the plugin its node and configuration, if it takes one.
func (s *subject) configure(ctx context.Context) error {
	if s.plugin.Configurer == nil {
		return nil
	}
	return s.options.within(ctx, configureTime, func(ctx context.Context) error {
		return s.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: s.node, Config: s.options.Config})
	})
}

// An origin makes subjects of one executable.
type origin struct {
	path    string
	options *Options
	node    eviction.NodeFacts
	dir     string

	mu     sync.Mutex
	starts int
	all    []*process
}

// process starts the executable with a new socket directory.
func (o *origin) process(cookie, tls bool) (*process, *start, error) {
	o.mu.Lock()
	o.starts++
	dir := filepath.Join(o.dir, fmt.Sprint(o.starts))
	o.mu.Unlock()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, err
	}
	s := &start{path: o.path, dir: dir, cookie: cookie, environment: o.options.Environment, sandbox: o.options.Sandbox}
	if tls {
		var err error
		if s.identity, err = newIdentity(); err != nil {
			return nil, nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	p, err := s.run()
	if err != nil {
		return nil, nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, p)
	return p, s, nil
}

// killAll ends whatever was started.
func (o *origin) killAll() {
	for _, p := range o.all {
		p.kill()
	}
}

// ready waits for the first line of a process.
func (p *process) ready(ctx context.Context) (string, error) {
	timer := time.NewTimer(readyTime)
	defer timer.Stop()
	select {
	case line, ok := <-p.first:
		switch {
		case ok:
			return line, nil
		case p.ended(2 * drainTime):
			return "", fmt.Errorf("it exited before the handshake (%s)%s", p.ending(), p.quote())
		default:
			return "", errors.New("it closed its standard output before the handshake" + p.quote())
		}
	case <-timer.C:
		return "", fmt.Errorf("no line on standard output within %s%s", readyTime, p.quote())
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// quote returns the last lines of the log as the end of a sentence.
func (p *process) quote() string {
	if log := p.log(); log != "" {
		return "; the end of its log:\n" + log
	}
	return ""
}

// open starts the executable and connects with it, as far as possible: an error
// says what was in the way.
func (o *origin) open(ctx context.Context, tls bool) (*subject, error) {
	since := time.Now()
	p, st, err := o.process(true, tls)
	if err != nil {
		return nil, err
	}
	line, err := p.ready(ctx)
	if err != nil {
		p.kill()
		return nil, err
	}
	h := readHandshake(line, st.dir, tls)
	if h.broken() {
		p.kill()
		return nil, errors.Join(h.line, h.major, h.address, h.protocol, h.certificate)
	}
	s, err := o.connect(ctx, p, st, h)
	if err != nil {
		p.kill()
		return nil, err
	}
	s.since = since
	if err := s.describe(ctx); err != nil {
		if end := s.crash(err); end != "" {
			err = fmt.Errorf("%w; %s", err, end)
		}
		s.end()
		return nil, err
	}
	return s, nil
}

// connect makes a connection to a process that has shaken hands.
func (o *origin) connect(ctx context.Context, p *process, st *start, h handshake) (*subject, error) {
	security := insecure.NewCredentials()
	if st.identity != nil {
		security = credentials.NewTLS(st.identity.trusting(h.cert))
	}
	cc, err := dial(h.socket, security)
	if err != nil {
		return nil, err
	}
	listening, stop := context.WithCancel(context.WithoutCancel(ctx)) // it ends with the subject
	var following sync.WaitGroup
	// The host takes what go-plugin diverts; a plugin need not have the call.
	following.Go(func() { _ = stream(listening, cc, "/plugin.GRPCStdio/StreamStdio", nil, p.diverted) })
	return &subject{
		options: o.options, node: o.node, cc: cc, client: wire.NewClient(cc), proc: p, from: o,
		redial: func() (*grpc.ClientConn, error) { return dial(h.socket, security.Clone()) },
		end: func() {
			stop()
			p.kill()
			_ = cc.Close()
			following.Wait()
		},
	}, nil
}

func dial(socket string, security credentials.TransportCredentials) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix:"+socket, append(wire.DialOptions(),
		grpc.WithTransportCredentials(security),
		grpc.WithAuthority("localhost"),
		grpc.WithDisableServiceConfig(),
	)...)
}

// crash says how the process ended if it did, "" while it lives. A connection
// that broke may be ahead of the end of the process.
func (s *subject) crash(err error) string {
	if s.proc == nil {
		return ""
	}
	wait := time.Duration(0)
	if errors.Is(err, eviction.ErrUnavailable) {
		wait = drainTime * 2
	}
	if !s.proc.ended(wait) {
		return ""
	}
	return fmt.Sprintf("the process ended (%s)%s", s.proc.ending(), s.proc.quote())
}
