package summary

import (
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxConnections is how many there may be, maxPerProcess how many of one process: a
// plugin needs two, and one that takes more costs itself only.
const (
	maxConnections = 128
	maxPerProcess  = 16
)

// process names the process that connected.
func process(conn net.Conn) (string, error) {
	pid, err := peer(conn)
	return "pid " + strconv.Itoa(int(pid)), err
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
