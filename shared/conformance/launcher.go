package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"

	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// A launcher makes targets of one executable.
type launcher struct {
	path    string
	options *Options
	node    eviction.NodeFacts
	dir     string
	// root is that of the sandboxes, nil for processes with all our rights.
	root   *sandbox.Root
	starts atomic.Uint64

	mu  sync.Mutex
	all []*process

	// growth and printed are what the processes of the groups have left.
	growth  []growth
	printed []string
}

// process starts the executable with a new socket directory.
func (l *launcher) process(byHand, tls bool) (*process, error) {
	var identity *launch.Identity
	var err error
	if tls {
		if identity, err = launch.NewIdentity(); err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	c, err := l.command()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	c.Identity, c.ByHand, c.Environment = identity, byHand, slices.Clone(l.options.Environment)
	if byHand {
		c.Environment = append(c.Environment, "PATH="+os.Getenv("PATH"))
	}
	p := &process{dir: c.Dir, identity: c.Identity}
	c.Stdout, c.Stderr = p.print, func(line []byte, _ bool) { p.written.Add(valid(line)) }
	if p.Process, err = launch.Start(c); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, p)
	return p, nil
}

// command is how the executable is started once more.
func (l *launcher) command() (launch.Command, error) {
	n := l.starts.Add(1)
	if l.root == nil {
		dir := filepath.Join(l.dir, fmt.Sprint(n))
		return launch.Command{Path: l.path, Args: []string{l.path}, Dir: dir}, os.Mkdir(dir, 0o700)
	}
	file, err := os.Open(l.path)
	if err != nil {
		return launch.Command{}, err
	}
	box, err := l.root.Prepare(filepath.Base(l.path), n, sandbox.Program{File: file}, *l.options.Sandbox)
	if err != nil {
		return launch.Command{}, err
	}
	return box.Command(l.path), nil
}

// killAll ends whatever was started.
func (l *launcher) killAll() {
	for _, p := range l.all {
		p.kill()
	}
}

// open starts the executable and connects with it, as far as possible: an error
// says what was in the way.
func (l *launcher) open(ctx context.Context, tls bool) (*target, error) {
	since := time.Now()
	p, err := l.process(false, tls)
	if err != nil {
		return nil, err
	}
	h, err := p.ready(ctx)
	if err != nil {
		p.kill()
		return nil, err
	}
	t, err := l.connect(ctx, p, h)
	if err != nil {
		p.kill()
		return nil, err
	}
	t.since = since
	if err := t.describe(ctx); err != nil {
		if end := t.crash(err); end != "" {
			err = fmt.Errorf("%w; %s", err, end)
		}
		t.end()
		return nil, err
	}
	return t, nil
}

// connect makes a connection to a process that has shaken hands.
func (l *launcher) connect(ctx context.Context, p *process, h launch.Handshake) (*target, error) {
	security := h.Credentials(p.identity)
	var conn *launch.Conn
	err := l.options.within(ctx, describeTime, func(ctx context.Context) (err error) {
		conn, err = p.Connect(ctx, h.Socket, security)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &target{
		options: l.options, node: l.node, cc: conn.ClientConn, client: wire.NewClient(conn), proc: p, from: l,
		redial: func() (*grpc.ClientConn, error) { return launch.Dial(h.Socket, security.Clone()) },
		end: func() {
			p.kill()
			conn.Close()
		},
	}, nil
}

// checkStart starts the executable once and checks its handshake, part by part.
func (l *launcher) checkStart(ctx context.Context) ([]Check, bool) {
	begin := time.Now()
	tls := !l.options.NoTLS
	p, err := l.process(false, tls)
	if err == nil {
		defer p.kill()
		_, err = p.ready(ctx)
	}
	faults, parsed := errors.AsType[launch.Faults](err)
	started := err
	if parsed {
		started = nil
	}
	input := "the environment of a host with AutoMTLS, no arguments"
	if !tls {
		input = "the environment of a host without AutoMTLS, no arguments"
	}
	results := []Check{{
		Name: "start", RPC: "(start)", Input: input,
		Expected: fmt.Sprintf("one line on standard output within %s", readyTime), Took: time.Since(begin),
	}}
	results[0].end(verdict(started))
	for _, part := range []struct {
		is           launch.Part
		name, expect string
	}{
		{launch.Line, "handshake-line", "first on standard output: 1|1|unix|SOCKET|grpc|CERTIFICATE"},
		{launch.Major, "handshake-major", "a protocol major of PLUGIN_PROTOCOL_VERSIONS, which is 1"},
		{launch.Address, "handshake-socket", "a unix socket directly in PLUGIN_UNIX_SOCKET_DIR"},
		{launch.Protocol, "handshake-protocol", "grpc"},
		{launch.Certificate, "handshake-certificate", certificateExpected(tls)},
	} {
		c := Check{Name: part.name, RPC: "(handshake)", Input: input, Expected: part.expect}
		switch {
		case started != nil:
			c.Result, c.Seen = Skipped, "not run after start failed"
		case faults.Of(launch.Line) != nil && part.is != launch.Line:
			c.Result, c.Seen = Skipped, "not run after handshake-line failed"
		default:
			c.end(verdict(faults.Of(part.is)))
		}
		results = append(results, c)
	}
	return results, err == nil
}

func certificateExpected(tls bool) string {
	if tls {
		return "its own certificate, for localhost, as unpadded base64 of the DER form"
	}
	return "no certificate, as the host sent none"
}

// lastGasp is how long what was killed with its group may take to be gone.
const lastGasp = 500 * time.Millisecond

// survivors wants nobody left of the processes that have ended, and ends who is.
// They are known by the socket directory in their environment, which each start has
// one of: a child that has left the process group keeps it, wherever it went.
func (l *launcher) survivors(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		left := l.left()
		if len(left) == 0 {
			return nil
		}
		if time.Since(begin) < l.options.patient(lastGasp) && ctx.Err() == nil {
			continue
		}
		var bad []error
		for pid, name := range left {
			bad = append(bad, fmt.Errorf("process %d (%s) lives on", pid, name))
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		return errors.Join(bad...)
	}
}

// left are the processes of plugins that have ended, with their names.
func (l *launcher) left() map[int]string {
	ended := l.endedDirs()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	found := map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // of others, or gone
		}
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if name, dir, _ := bytes.Cut(variable, []byte("=")); string(name) == plugin.EnvUnixSocketDir && ended[string(dir)] {
				comm, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm"))
				found[pid] = string(bytes.TrimSpace(comm))
			}
		}
	}
	return found
}

// endedDirs are the socket directories of processes that have ended.
func (l *launcher) endedDirs() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	dirs := map[string]bool{}
	for _, p := range l.all {
		if p.ended() {
			dirs[p.dir] = true
		}
	}
	return dirs
}
