package sdk

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// parentVariable names the descriptor of a pipe that reaches its end of file when the host dies.
// It is absent if the plugin was started by hand.
const parentVariable = "EVICTD_PARENT_FD"

// leaveWithHost makes the process exit as soon as the host is dead. Otherwise the plugin would keep
// its sockets and memory and, during a Reclaim, act on a node without a host.
//
// Its goroutine ends with the process.
func leaveWithHost() error {
	value := os.Getenv(parentVariable)
	if value == "" {
		return nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= 2 {
		return fmt.Errorf("%s is %q, want the number of an inherited pipe", parentVariable, value)
	}
	// Non-blocking makes os.File wait in the poller instead of blocking a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("%s is %q, want the number of an inherited pipe: %w", parentVariable, value, err)
	}
	unix.CloseOnExec(fd)
	pipe := os.NewFile(uintptr(fd), "parent")
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		os.Exit(0)
	}()
	return nil
}
