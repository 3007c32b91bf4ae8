package nodefs

import (
	"errors"
	"fmt"
)

// TasksCgroup reads how many tasks one cgroup and all below it have, through a
// descriptor that it keeps open. The kernel's pids controller counts tasks: each
// thread, not each process. It may be used concurrently, with a Buffer for each
// caller.
type TasksCgroup struct {
	current *File
}

// OpenTasks opens a cgroup's counter; h is the hierarchy of the pids controller.
// The error wraps ErrGone when there is no such cgroup, and does not when there is
// one that has no counter: tasks may run in it. A root has none.
func (h Hierarchy) OpenTasks(cgroup string) (*TasksCgroup, error) {
	current, err := h.open(cgroup, "pids.current")
	if errors.Is(err, ErrGone) && h.Exists(cgroup) {
		return nil, fmt.Errorf("cgroup %s has no pids.current: its pids controller is not enabled", h.Path(cgroup))
	}
	if err != nil {
		return nil, err
	}
	return &TasksCgroup{current: current}, nil
}

// Read reads the figure now. The error wraps ErrGone when the cgroup has been
// removed.
func (c *TasksCgroup) Read(b *Buffer) (int64, error) {
	return readParsed(c.current, b, parseAmount)
}

// Alive reports whether the cgroup still exists.
func (c *TasksCgroup) Alive(b *Buffer) bool {
	_, err := c.current.Read(b)
	return !errors.Is(err, ErrGone)
}

// Close closes the descriptor.
func (c *TasksCgroup) Close() { c.current.Close() }
