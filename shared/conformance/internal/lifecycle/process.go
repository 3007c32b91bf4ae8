package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

// quotedLines is the maximum number of log lines that a report quotes.
const quotedLines = 8

// A Process is one start of the plugin.
type Process struct {
	*launch.Process

	// Target is nil until Starter.Open has connected.
	Target    *check.Target
	handshake launch.Handshake
	conn      *launch.Conn
	dir       string // of its socket
	identity  *launch.Identity
	written   launch.Log
	stdout    launch.Log // after the first line
}

func valid(line []byte) string { return strings.ToValidUTF8(string(line), "\uFFFD") }

// Printed implements check.Server.
func (p *Process) Printed() []string { return p.stdout.Last(quotedLines) }

// quote returns the last lines of the log, to be appended to a message.
func (p *Process) quote() string {
	if log := check.Lines(p.written.Since(0, quotedLines)); log != "" {
		return "; the end of its log:\n" + log
	}
	return ""
}

// Shake waits for the handshake. If that is invalid, the error is launch.Faults.
func (p *Process) Shake(ctx context.Context) (err error) {
	inTime, cancel := context.WithTimeout(ctx, eviction.HandshakeDeadline)
	defer cancel()
	p.handshake, err = p.Ready(inTime, nil)
	if err == nil {
		err = checkSocket(p.handshake.Socket)
	}
	_, isFaults := errors.AsType[launch.Faults](err)
	switch {
	case err == nil, isFaults, ctx.Err() != nil:
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no line on standard output within %s%s", eviction.HandshakeDeadline, p.quote())
	default:
		return fmt.Errorf("it %w%s", err, p.quote())
	}
}

// Ended implements check.Server.
func (p *Process) Ended(d time.Duration) string {
	if !p.WaitFor(d) {
		return ""
	}
	return fmt.Sprintf("the process ended (%s)%s", p.Ending(), p.quote())
}

// ends returns Slow with the text otherwise unless the process ends within d.
func (p *Process) ends(d time.Duration, otherwise string) error {
	if !p.WaitFor(p.Target.Patient(d)) {
		return check.Slow(otherwise + p.quote())
	}
	return nil
}

// End kills the process and its process group and waits until they have ended.
func (p *Process) End() {
	_ = p.Stop(0) // what cannot be killed is reported as a survivor
	if p.conn != nil {
		p.conn.Close()
	}
}

// checkSocket returns an error unless the path that the plugin named is a socket.
func checkSocket(path string) error {
	stat, err := os.Stat(path)
	if err == nil && stat.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is not a socket", path)
	}
	if err != nil {
		return launch.Faults{launch.Address: err}
	}
	return nil
}

// An Attached is a connection to a plugin that another program has started.
type Attached struct{ *launch.Peer }

// Attach connects to the plugin on a socket, which was called first at since. One that has crashed gets the time of a handshake to come back.
func Attach(ctx context.Context, s *check.Setup, socket string, since time.Time) (*check.Target, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, eviction.HandshakeDeadline, fmt.Errorf("not ready within %s", eviction.HandshakeDeadline))
	defer cancel()
	for {
		peer, err := launch.Attach(ctx, socket, func(unix.Ucred) error { return nil })
		if err == nil {
			return check.Open(ctx, s, Attached{peer}, wire.NewClient(peer), since)
		}
		if !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// Ended implements check.Server.
func (a Attached) Ended(d time.Duration) string {
	a.WaitFor(d)
	return a.Ending()
}

// Usage implements check.Server.
func (a Attached) Usage() check.Usage {
	if int(a.Pid) == os.Getpid() {
		return OwnUsage()
	}
	return usageOf(int(a.Pid))
}

// Printed implements check.Server: the output is not seen here.
func (Attached) Printed() []string { return nil }

// End implements check.Server.
func (a Attached) End() { _ = a.Close() }

// AttachedGroup is the part of Group about a plugin that another program has started.
func AttachedGroup(of *Leftovers) check.Group {
	healthy := func(ctx context.Context, t *check.Target) error { return serving(ctx, t.Server.(Attached)) }
	return check.Group{Name: groupName, Unconfigured: true, Checks: append([]check.Check{healthCheck(healthy), unknownRPCCheck}, of.growth()...)}
}
