package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/pluginhost/plugindir"
	"github.com/evictd/evictd/shared/launch"
	"github.com/evictd/evictd/shared/sandbox"
	"github.com/evictd/evictd/shared/wire"
)

// users returns the users that the socket of the plugin of that name may belong to, and an error for settings with
// which no socket may be called.
func (p startPolicy) users(name string) ([]uint32, error) {
	switch {
	case p.pin != "":
		return nil, fmt.Errorf("plugins.%s.sha256: the program behind a socket has no hash, want none", name)
	case p.mustPin:
		return nil, errors.New("it is a socket, whose program has no hash, and requirePins is on: want an executable")
	}
	return plugindir.Users(p.User)
}

// checkSocket makes the checks that precede a connection.
func (p startPolicy) checkSocket(name, path string) (users []uint32, err error) {
	if users, err = p.users(name); err != nil {
		return nil, plugindir.Refusal{Err: err}
	}
	return users, plugindir.CheckSocket(path, users)
}

// confines reports whether settings other than the user are those of a process that evictd starts.
func (p startPolicy) confines(name string) bool {
	usual := startPolicyFor(nil, name)
	usual.User = p.User
	return p != usual
}

func attach(ctx context.Context, s start, path string) (running, error) {
	users, err := s.policy.checkSocket(s.Name, path)
	if err != nil {
		return nil, err
	}
	timeout := s.Timeouts.Handshake << s.Doublings
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	peer, err := launch.Attach(ctx, path, func(c unix.Ucred) error { return plugindir.CheckPeer(path, c, users) })
	if err != nil {
		return nil, unready(err, timeout)
	}
	return &attached{wire.NewClient(peer), peer}, nil
}

// An attached plugin is one that another program has started. What ends is its connection.
type attached struct {
	*wire.Client

	peer *launch.Peer
}

func (a *attached) pid() int { return int(a.peer.Pid) }

func (a *attached) exited() <-chan struct{} { return a.peer.Exited() }

func (a *attached) ending(time.Duration) string { return a.peer.Ending() }

func (a *attached) confinement() *Confinement {
	return &Confinement{Outside: true, Status: sandbox.Status{Policy: sandbox.Policy{User: fmt.Sprint(a.peer.Uid)}}}
}

func (a *attached) close(time.Duration) error {
	_ = a.peer.Close()
	return nil
}
