package stack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// AdoptOrphans makes this process the parent of orphans among its descendants. Otherwise a dead
// shim stays in the process list until init reaps it, which may take seconds. Call it in main or
// TestMain, but not if tests watch orphans themselves.
func AdoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// reapShims reaps the dead shims among this process's children. Other children belong to an
// exec.Cmd.
func reapShims() {
	entries, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, entry := range entries {
		raw, err := os.ReadFile(entry)
		if err != nil {
			continue // gone meanwhile
		}
		if pid, ok := parseDeadShim(raw, os.Getpid()); ok {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // the exit code is not needed
		}
	}
}

// parseDeadShim reports whether a /proc/PID/stat is that of a zombie shim of parent. The kernel
// truncates command names to 15 characters, the length of "containerd-shim".
func parseDeadShim(stat []byte, parent int) (pid int, ok bool) {
	before, _, found := bytes.Cut(stat, []byte(" (containerd-shim) Z "+strconv.Itoa(parent)+" "))
	if !found {
		return 0, false
	}
	pid, err := strconv.Atoi(string(before))
	return pid, err == nil
}
