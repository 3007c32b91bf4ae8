// Package stdout keeps standard output for the handshake with the host: what
// any other code prints goes to standard error, which is the log.
//
// It depends on next to nothing, so that its init runs early, and does nothing
// in a process that was not started as a plugin.
package stdout

import (
	"os"

	"golang.org/x/sys/unix"
)

// Cookie is the variable that a host sets for its plugins. Package sdk tests
// that it is the protocol's; importing the protocol here would be late.
const Cookie = "EVICTD_PLUGIN_COOKIE"

// kept is the standard output that the process was started with, nil if it was
// left alone. It is never closed.
var kept = take()

// Handshake returns the standard output that the process was started with.
func Handshake() *os.File {
	if kept == nil {
		return os.Stdout
	}
	return kept
}

// take moves standard output to a descriptor that no print knows and puts
// standard error in its place.
func take() *os.File {
	if os.Getenv(Cookie) == "" {
		return nil
	}
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "handshake")
}
