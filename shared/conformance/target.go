package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

// readyTime is what a plugin has from its start to its handshake.
const readyTime = eviction.HandshakeDeadline

// A target is a plugin that can be called: a process with a connection, or a
// value that is served here.
type target struct {
	options *Options
	node    eviction.NodeFacts
	cc      *grpc.ClientConn
	client  *wire.Client
	// plugin is what it described itself to be, with calls in its fields.
	plugin eviction.Plugin

	since time.Time // before it was there
	proc  *process  // nil for a value
	from  *launcher
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
func (t *target) call(ctx context.Context, rpc string, in message) ([]byte, error) {
	out, err := unary(ctx, t.cc, service+rpc, in)
	return out, rpcError(ctx, err)
}

// offering lists the signals for which the plugin offers c.
func (t *target) offering(c eviction.Capability) []eviction.Signal {
	var out []eviction.Signal
	for _, spec := range t.plugin.Signals {
		if t.plugin.For(spec.Signal).Has(c) {
			out = append(out, spec.Signal)
		}
	}
	return out
}

// describe asks the plugin what it is.
func (t *target) describe(ctx context.Context) error {
	return t.options.within(ctx, describeTime, func(ctx context.Context) error {
		p, err := t.client.Describe(ctx, eviction.Host{Version: hostVersion})
		if err == nil {
			t.plugin = p
		}
		return err
	})
}

// hostVersion is what plugins read in Describe.
const hostVersion = "conformance"

// configure gives the plugin its node and configuration, if it takes one.
func (t *target) configure(ctx context.Context) error {
	if t.plugin.Configurer == nil {
		return nil
	}
	return t.options.within(ctx, configureTime, func(ctx context.Context) error {
		return t.plugin.Configurer.Configure(ctx, eviction.ConfigureRequest{Node: t.node, Config: t.options.Config})
	})
}

// An launcher makes targets of one executable.
type launcher struct {
	path    string
	options *Options
	node    eviction.NodeFacts
	dir     string

	mu     sync.Mutex
	starts int
	all    []*process
}

// process starts the executable with a new socket directory.
func (o *launcher) process(byHand, tls bool) (*process, error) {
	o.mu.Lock()
	o.starts++
	p := &process{dir: filepath.Join(o.dir, fmt.Sprint(o.starts))}
	o.mu.Unlock()
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	c := launch.Command{Path: o.path, ByHand: byHand, Environment: o.options.Environment}
	if byHand {
		c.Environment = append(slices.Clone(c.Environment), "PATH="+os.Getenv("PATH"))
	}
	if tls {
		var err error
		if p.identity, err = launch.NewIdentity(); err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	if err := p.start(c, o.options.Sandbox); err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, p)
	return p, nil
}

// killAll ends whatever was started.
func (o *launcher) killAll() {
	for _, p := range o.all {
		p.kill()
	}
}

// open starts the executable and connects with it, as far as possible: an error
// says what was in the way.
func (o *launcher) open(ctx context.Context, tls bool) (*target, error) {
	since := time.Now()
	p, err := o.process(false, tls)
	if err != nil {
		return nil, err
	}
	h, err := p.ready(ctx)
	if err != nil {
		p.kill()
		return nil, err
	}
	s, err := o.connect(ctx, p, h)
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
func (o *launcher) connect(ctx context.Context, p *process, h launch.Handshake) (*target, error) {
	security := h.Credentials(p.identity)
	var conn *launch.Conn
	err := o.options.within(ctx, describeTime, func(ctx context.Context) (err error) {
		conn, err = p.Connect(ctx, h.Socket, security)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &target{
		options: o.options, node: o.node, cc: conn.ClientConn, client: wire.NewClient(conn), proc: p, from: o,
		redial: func() (*grpc.ClientConn, error) { return launch.Dial(h.Socket, security.Clone()) },
		end: func() {
			p.kill()
			conn.Close()
		},
	}, nil
}

// crash says how the process ended if it did, "" while it lives. A connection
// that broke may be ahead of the end of the process.
func (t *target) crash(err error) string {
	if t.proc == nil {
		return ""
	}
	wait := time.Duration(0)
	if errors.Is(err, eviction.ErrUnavailable) {
		wait = endingTime
	}
	if !t.proc.WaitFor(wait) {
		return ""
	}
	return fmt.Sprintf("the process ended (%s)%s", t.proc.Ending(), t.proc.quote())
}
