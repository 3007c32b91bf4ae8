package nodefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// maxProcsBytes caps one cgroup.procs: more than all the pids that a node has by default.
	maxProcsBytes = 4 << 20
	// maxCgroupsBelow bounds the cgroups below one that are read: a container may make as many
	// as it likes.
	maxCgroupsBelow = 1000
	// maxEntries has these and far more files than the controllers of a cgroup have.
	maxEntries = 2 * maxCgroupsBelow
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

// Processes returns the ids of the processes that are in a cgroup, or below it, now: as the
// pid namespace of this process knows them, so that those it does not see are left out. It
// may list one twice. The error wraps ErrGone when there is no such cgroup. With an error that says
// that there are too many cgroups below come those of the first.
//
// The file is opened each time. A descriptor of version 1 that is kept shows for a
// second what it showed before (kernel/cgroup/cgroup-v1.c, cgroup_pidlist_start).
func (h Hierarchy) Processes(cgroup string) ([]int, error) {
	pids, err := h.processesOf(cgroup)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // that says a threaded one, whose processes are those of the cgroup above
		return nil, err
	}
	below := []string{cgroup}
	for i := 0; i < len(below); i++ {
		for _, e := range h.entries(below[i]) {
			if !e.IsDir() {
				continue
			}
			if len(below) > maxCgroupsBelow {
				return pids, fmt.Errorf("more than %d cgroups below %s, the processes of others are not listed", maxCgroupsBelow, h.Path(cgroup))
			}
			child := path.Join(below[i], e.Name())
			below = append(below, child)
			of, err := h.processesOf(child)
			if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, ErrGone) {
				return nil, err
			}
			pids = append(pids, of...)
		}
	}
	return pids, nil
}

// entries returns what is in the directory of a cgroup: of more than maxEntries so many that there are
// too many cgroups among them. One that is gone has none.
func (h Hierarchy) entries(cgroup string) []os.DirEntry {
	dir, err := os.Open(h.Path(cgroup))
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // nothing was written
	entries, _ := dir.ReadDir(maxEntries)
	return entries
}

func (h Hierarchy) processesOf(cgroup string) ([]int, error) {
	name := h.Path(path.Join(cgroup, "cgroup.procs"))
	file, err := os.Open(name)
	if err != nil {
		return nil, fileError("open", name, err)
	}
	defer file.Close()                                                //nolint:errcheck // nothing was written
	content, err := io.ReadAll(io.LimitReader(file, maxProcsBytes+1)) // the kernel gives a page at a time
	switch {
	case err != nil:
		return nil, fileError("read", name, err)
	case len(content) > maxProcsBytes:
		return nil, fmt.Errorf("read %s: larger than %d bytes", name, maxProcsBytes)
	}
	pids, err := parsePIDs(content)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", name, err)
	}
	return pids, nil
}

// Kill has the kernel kill all processes that are in a cgroup of version 2, or below it. The error
// is not nil where it does not do that: before Linux 5.14, for a threaded cgroup, and in version 1.
func (h Hierarchy) Kill(cgroup string) error {
	name := h.Path(path.Join(cgroup, "cgroup.kill"))
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fileError("open", name, err)
	}
	defer file.Close() //nolint:errcheck // the kernel has reported errors by then
	if _, err := file.WriteString("1"); err != nil {
		return fileError("write", name, err)
	}
	return nil
}
