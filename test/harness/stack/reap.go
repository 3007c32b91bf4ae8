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

// AdoptOrphans makes this process the parent of what its children leave
// behind. Without it a dead shim stays in the process list until init looks,
// which some take seconds for. For main and TestMain; tests that watch orphans of
// their own do without.
func AdoptOrphans() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	return nil
}

// reapShims takes the dead shims among our children off the process list.
// Other children are somebody's exec.Cmd.
func reapShims() {
	entries, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, entry := range entries {
		raw, err := os.ReadFile(entry)
		if err != nil {
			continue // gone meanwhile
		}
		if pid, ok := parseDeadShim(raw, os.Getpid()); ok {
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // nobody wants its exit code
		}
	}
}

// parseDeadShim reports whether a /proc/PID/stat is of a zombie shim of parent.
// The kernel cuts command names at 15 characters, which "containerd-shim" just has.
func parseDeadShim(stat []byte, parent int) (pid int, ok bool) {
	before, _, found := bytes.Cut(stat, []byte(" (containerd-shim) Z "+strconv.Itoa(parent)+" "))
	if !found {
		return 0, false
	}
	pid, err := strconv.Atoi(string(before))
	return pid, err == nil
}
