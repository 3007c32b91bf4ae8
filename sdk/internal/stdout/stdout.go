// Package stdout reserves standard output for the handshake with the host: output of
// any other code goes to standard error, which is the log.
//
// It imports almost nothing, so that its init runs early. It does nothing in a process
// that was not started as a plugin.
package stdout

import (
	"os"

	"golang.org/x/sys/unix"
)

// Cookie is the environment variable that a host sets for its plugins. It repeats the
// protocol's constant, which a test of package sdk checks: importing it would delay init.
const Cookie = "EVICTD_PLUGIN_COOKIE"

// kept is the original standard output, nil if it was not redirected. It is never closed.
var kept = take()

// Handshake returns the original standard output of the process.
func Handshake() *os.File {
	if kept == nil {
		return os.Stdout
	}
	return kept
}

// take moves standard output to another descriptor, which no print uses; prints go to standard error.
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
