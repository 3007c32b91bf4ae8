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
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// spawn starts the executable with a new socket directory.
func (r *run) spawn(byHand, tls bool) (*process, error) {
	var identity *launch.Identity
	var err error
	if tls {
		if identity, err = launch.NewIdentity(); err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
	}
	c, err := r.command()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	c.Identity, c.ByHand, c.Environment = identity, byHand, slices.Clone(r.options.Environment)
	if byHand {
		c.Environment = append(c.Environment, "PATH="+os.Getenv("PATH"))
	}
	p := &process{dir: c.Dir, identity: c.Identity}
	c.Stdout, c.Stderr = p.print, func(line []byte, _ bool) { p.written.Add(valid(line)) }
	if p.Process, err = launch.Start(c); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
	return p, nil
}

// command returns how to start the executable once more, in a directory or a sandbox of its
// own.
func (r *run) command() (launch.Command, error) {
	n := r.spawned.Add(1)
	if r.root == nil {
		dir := filepath.Join(r.dir, fmt.Sprint(n))
		return launch.Command{Path: r.path, Args: []string{r.path}, Dir: dir}, os.Mkdir(dir, 0o700)
	}
	file, err := os.Open(r.path)
	if err != nil {
		return launch.Command{}, err
	}
	box, err := r.root.Prepare(filepath.Base(r.path), n, sandbox.Program{File: file}, *r.options.Sandbox)
	if err != nil {
		return launch.Command{}, err
	}
	return box.Command(r.path), nil
}

// killAll ends whatever was started.
func (r *run) killAll() {
	for _, p := range r.all {
		p.kill()
	}
}

// openProcess starts the executable and connects with it, as far as possible: an error
// says what was in the way.
func (r *run) openProcess(ctx context.Context, tls bool) (*target, error) {
	since := time.Now()
	p, err := r.spawn(false, tls)
	if err != nil {
		return nil, err
	}
	t := &target{run: r, since: since, proc: p, end: p.kill}
	if t.handshake, err = p.ready(ctx); err == nil {
		err = r.dial(ctx, t)
	}
	if err == nil {
		if err = t.describe(ctx); err != nil && t.crash(err) != "" {
			err = fmt.Errorf("%w; %s", err, t.crash(err))
		}
	}
	if err != nil {
		t.end()
		return nil, err
	}
	return t, nil
}

// dial makes the connection to a process that has shaken hands.
func (r *run) dial(ctx context.Context, t *target) error {
	return r.options.within(ctx, describeTime, func(ctx context.Context) error {
		conn, err := t.proc.Connect(ctx, t.handshake.Socket, t.handshake.Credentials(t.proc.identity))
		if err != nil {
			return err
		}
		t.cc, t.client = conn.ClientConn, wire.NewClient(conn)
		t.end = func() {
			t.proc.kill()
			conn.Close()
		}
		return nil
	})
}

// start starts the executable once and checks its handshake, part by part. It reports
// whether the plugin can be called.
func (r *run) start(ctx context.Context) bool {
	begin := time.Now()
	tls := !r.options.NoTLS
	p, err := r.spawn(false, tls)
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
	first := Check{
		Name: "start", RPC: "(start)", Input: input,
		Expected: fmt.Sprintf("one line on standard output within %s", readyTime), Took: time.Since(begin),
	}
	first.end(verdict(started))
	r.checks = append(r.checks, first)
	for _, part := range []struct {
		is           int
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
		case faults[launch.Line] != nil && part.is != launch.Line:
			c.Result, c.Seen = Skipped, "not run after handshake-line failed"
		default:
			c.end(verdict(faults[part.is]))
		}
		r.checks = append(r.checks, c)
	}
	return err == nil
}

func certificateExpected(tls bool) string {
	if tls {
		return "its own certificate, for localhost, as unpadded base64 of the DER form"
	}
	return "no certificate, as the host sent none"
}

// lastGasp bounds the wait for the end of processes that were killed with their group.
const lastGasp = 500 * time.Millisecond

// survivors wants nobody left of the processes that have ended, and ends who is.
// They are known by the socket directory in their environment, which each start has
// one of: a child that has left the process group keeps it, wherever it went.
func (r *run) survivors(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		left := r.left()
		if len(left) == 0 {
			return nil
		}
		if time.Since(begin) < r.options.patient(lastGasp) && ctx.Err() == nil {
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
func (r *run) left() map[int]string {
	ended, found := r.endedDirs(), map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(file) // of others, or gone
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if name, dir, _ := bytes.Cut(variable, []byte("=")); string(name) == plugin.EnvUnixSocketDir && ended[string(dir)] {
				comm, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
				found[pid] = string(bytes.TrimSpace(comm))
			}
		}
	}
	return found
}

// endedDirs are the socket directories of processes that have ended.
func (r *run) endedDirs() map[string]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	dirs := map[string]bool{}
	for _, p := range r.all {
		if p.ended() {
			dirs[p.dir] = true
		}
	}
	return dirs
}
