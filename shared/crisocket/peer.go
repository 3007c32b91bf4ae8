package crisocket

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// Peer returns the id of the process at the other end of a unix connection: of a server the one
// that began to listen.
func Peer(conn net.Conn) (pid int32, err error) {
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return 0, fmt.Errorf("%T is not a unix connection", conn)
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err := errors.Join(err, failed); err != nil {
		return 0, fmt.Errorf("peer credentials: %w", err)
	}
	return peer.Pid, nil
}
