package sdk

import (
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// parentVariable names the descriptor of a pipe that the host holds open: its
// end of file is the host's death. Absent when a person is the host.
const parentVariable = "EVICTD_PARENT_FD"

// leaveWithHost ends the process as soon as the host is dead. A plugin that
// lives on would keep its sockets and its memory, and with a Reclaim under way
// act on a node without a host.
//
// The goroutine ends with the process.
func leaveWithHost() error {
	value := os.Getenv(parentVariable)
	if value == "" {
		return nil
	}
	fd, err := strconv.Atoi(value)
	if err != nil || fd <= 2 {
		return fmt.Errorf("%s is %q, want the number of an inherited pipe", parentVariable, value)
	}
	// Non-blocking makes os.File wait in the poller and not in a thread.
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
