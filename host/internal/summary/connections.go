package summary

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxConnections is how many there may be, maxPerProcess how many of one
	// process: a plugin needs two, and one that takes more costs itself only.
	maxConnections = 128
	maxPerProcess  = 16
	// refusalLogInterval keeps a plugin from filling the log.
	refusalLogInterval = time.Minute
)

// connections is a listener that counts. Connections over the limits are closed
// at once.
type connections struct {
	net.Listener

	log *slog.Logger
	// open is also how Close knows that no goroutine is left.
	open sync.WaitGroup

	mu      sync.Mutex
	of      map[net.Conn]int32 // the process at the other end
	refused time.Time          // logged last
}

func newConnections(l net.Listener, log *slog.Logger) *connections {
	return &connections{Listener: l, log: log, of: make(map[net.Conn]int32)}
}

// Accept returns the next connection within the limits.
func (c *connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		pid, err := peer(conn)
		if err == nil {
			err = c.add(conn, pid)
		}
		if err == nil {
			return conn, nil
		}
		_ = conn.Close() // nothing was written
		c.logRefused(pid, err)
	}
}

func (c *connections) add(conn net.Conn, pid int32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	same := 0
	for _, other := range c.of {
		if other == pid {
			same++
		}
	}
	if same >= maxPerProcess {
		return fmt.Errorf("process has %d connections already", same)
	}
	if len(c.of) >= maxConnections {
		return fmt.Errorf("there are %d connections already", len(c.of))
	}
	c.of[conn] = pid
	c.open.Add(1)
	return nil
}

// changed is the server's hook. The last thing that the goroutine of a connection
// does is to say that it is closed.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateClosed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.of[conn]; known {
		delete(c.of, conn)
		c.open.Done()
	}
}

func (c *connections) logRefused(pid int32, err error) {
	now := time.Now()
	c.mu.Lock()
	quiet := now.Sub(c.refused) < refusalLogInterval
	if !quiet {
		c.refused = now
	}
	c.mu.Unlock()
	if !quiet {
		c.log.Warn("connection for summaries refused", "pid", pid, "error", err)
	}
}

// peer returns the process that connected.
func peer(conn net.Conn) (int32, error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is not a unix connection", conn)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if failed != nil {
		return 0, fmt.Errorf("peer credentials: %w", failed)
	}
	return cred.Pid, nil
}
