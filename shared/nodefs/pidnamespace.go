package nodefs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// initialPIDNamespace names the pid namespace that the kernel boots with; its
// number is fixed (include/linux/proc_ns.h, PROC_PID_INIT_INO).
const initialPIDNamespace = "pid:[4026531836]"

// ErrNestedPIDNamespace means that the pid namespace is not the machine's initial one, which is
// right only on a nested node.
var ErrNestedPIDNamespace = errors.New("this process is not in the pid namespace of the machine: give it the host's (hostPID: true)")

var errOwnPIDNamespace = errors.New("this process has a pid namespace of its own, whose limits are not the node's: give it the host's (hostPID: true)")

// CheckPIDNamespace returns an error unless this process shares the pid namespace of the node
// below the root. Otherwise kernel.pid_max would be that of its container.
//
// If the root is a mount of the node's, its /proc shows that. Under the root "/" a process sees
// its own namespace only, which must then be the machine's initial one (else
// ErrNestedPIDNamespace), unless nested is set: a node that is itself a container (kind, LXC)
// has no process in the initial namespace.
func (f FS) CheckPIDNamespace(nested bool) error {
	status, err := f.Open("/proc/self/status")
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("pid namespace: %s does not show this process: %w", f.Path("/proc"), errOwnPIDNamespace)
	}
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	defer status.Close()
	content, err := status.Read(&Buffer{})
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	depth, err := parseNSpid(content)
	if err != nil {
		return fmt.Errorf("pid namespace: parse %s: %w", status.Path(), err)
	}
	if depth > 1 {
		return fmt.Errorf("pid namespace: %w", errOwnPIDNamespace)
	}
	if nested || depth == 0 || filepath.Join("/", f.Root) != "/" {
		return nil
	}
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return fmt.Errorf("pid namespace: %w", err)
	}
	return checkInitialPIDNamespace(name)
}

func checkInitialPIDNamespace(name string) error {
	if name != initialPIDNamespace {
		return fmt.Errorf("pid namespace: %s, want %s: %w", name, initialPIDNamespace, ErrNestedPIDNamespace)
	}
	return nil
}
