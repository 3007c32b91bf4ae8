package lifecycle

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

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// A Starter can start the executable any number of times.
type Starter struct {
	Setup *check.Setup
	Path  string
	// Dir is the parent of the sockets' directories.
	Dir         string
	NoTLS       bool
	Environment []string
	// Root and Policy configure sandboxes; if Root is nil, processes have all rights of the caller.
	Root   *sandbox.Root
	Policy *sandbox.Policy

	spawned atomic.Uint64
	mu      sync.Mutex
	all     []*Process
}

// Spawn starts the executable with a new socket directory.
func (r *Starter) Spawn(byHand, tls bool) (*Process, error) {
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
	c.Identity, c.ByHand, c.Environment = identity, byHand, slices.Clone(r.Environment)
	if byHand {
		c.Environment = append(c.Environment, "PATH="+os.Getenv("PATH"))
	}
	p := &Process{dir: c.Dir, identity: c.Identity}
	c.Stdout = func(line []byte, _ bool) { p.stdout.Add(valid(line)) }
	c.Stderr = func(line []byte, _ bool) { p.written.Add(valid(line)) }
	if p.Process, err = launch.Start(c); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, p)
	return p, nil
}

// command returns the command for another start of the executable, in a new directory or sandbox.
func (r *Starter) command() (launch.Command, error) {
	n := r.spawned.Add(1)
	if r.Root == nil {
		dir := filepath.Join(r.Dir, fmt.Sprint(n))
		return launch.Command{Path: r.Path, Args: []string{r.Path}, Dir: dir}, os.Mkdir(dir, 0o700)
	}
	file, err := os.Open(r.Path)
	if err != nil {
		return launch.Command{}, err
	}
	box, err := r.Root.Prepare(filepath.Base(r.Path), n, sandbox.Program{File: file}, *r.Policy)
	if err != nil {
		return launch.Command{}, err
	}
	return box.Command(r.Path), nil
}

// Close ends all processes that it started.
func (r *Starter) Close() {
	for _, p := range r.all {
		p.End()
	}
}

// Open starts the executable and connects to it. The error says which step failed.
func (r *Starter) Open(ctx context.Context, tls bool) (*Process, error) {
	since := time.Now()
	p, err := r.Spawn(false, tls)
	if err != nil {
		return nil, err
	}
	if err = p.Shake(ctx); err == nil {
		err = r.Setup.Within(ctx, eviction.DescribeDeadline, func(ctx context.Context) (err error) {
			p.conn, err = p.Connect(ctx, p.handshake.Socket, p.handshake.Credentials(p.identity))
			return err
		})
	}
	if err == nil {
		p.Target, err = check.Open(ctx, r.Setup, p, wire.NewClient(p.conn), since)
	}
	if err != nil {
		p.End()
		return nil, err
	}
	return p, nil
}

// lastGasp limits the wait for processes to die after their group was killed.
const lastGasp = 500 * time.Millisecond

// survivors returns an error for processes left behind by plugins that have ended, and kills
// them. It finds them by the socket directory in their environment, which differs for each
// start: a child that leaves the process group keeps it.
func (r *Starter) survivors(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for begin := time.Now(); ; <-tick.C {
		left := r.left()
		if len(left) == 0 {
			return nil
		}
		if time.Since(begin) < r.Setup.Patient(lastGasp) && ctx.Err() == nil {
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

// left returns the PIDs and names of processes left behind by plugins that have ended.
func (r *Starter) left() map[int]string {
	ended, found := map[string]bool{}, map[int]string{} // by socket directory, by PID
	r.mu.Lock()
	for _, p := range r.all {
		ended[p.dir] = p.WaitFor(0)
	}
	r.mu.Unlock()
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(file) // empty for another user's process, or one that is gone
		for variable := range bytes.SplitSeq(environ, []byte{0}) {
			if name, dir, _ := bytes.Cut(variable, []byte("=")); string(name) == plugin.EnvUnixSocketDir && ended[string(dir)] {
				comm, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "comm"))
				found[pid] = string(bytes.TrimSpace(comm))
			}
		}
	}
	return found
}
