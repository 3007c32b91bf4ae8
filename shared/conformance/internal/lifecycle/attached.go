package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/conformance/internal/check"
	"github.com/evictd/evictd/shared/eviction"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/wire"
)

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
	if !a.WaitFor(d) {
		return ""
	}
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
