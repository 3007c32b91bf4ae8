package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
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
