package nodefs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxProcsBytes limits one cgroup.procs: more than all PIDs that a node has by default.
	maxProcsBytes = 4 << 20
	// maxCgroupsBelow is the maximum number of descendant cgroups that are read: a container may
	// create any number.
	maxCgroupsBelow = 1000
	// maxEntries is enough for these and all files of a cgroup.
	maxEntries = 2 * maxCgroupsBelow
)

// TasksCgroup reads the number of tasks in a cgroup and its descendants through a descriptor that
// it keeps open. The kernel's pids controller counts tasks: threads, not processes. It may be used
// concurrently, with a Buffer for each caller.
type TasksCgroup struct {
	current *File
}

// OpenTasks opens a cgroup's counter; h is the hierarchy of the pids controller. The error wraps
// ErrGone if the cgroup does not exist, but not if the cgroup has no counter, as a root: tasks
// may run in it.
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

// Processes returns the PIDs of all processes in a cgroup and its descendants, in the pid
// namespace of this process; it omits those that this namespace does not show. It may list a PID
// twice. The error wraps ErrGone if the cgroup does not exist. If there are too many descendants,
// it returns an error together with the PIDs of the first ones.
//
// The file is opened each time. A descriptor of version 1 that stays open repeats its content for
// a second (kernel/cgroup/cgroup-v1.c, cgroup_pidlist_start).
func (h Hierarchy) Processes(cgroup string) ([]int, error) {
	pids, err := h.processesOf(cgroup)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) { // a threaded cgroup, whose processes are listed in its parent
		return nil, err
	}
	below := []string{cgroup}
	for i := 0; i < len(below); i++ {
		entries, err := h.entries(below[i])
		if err != nil {
			return pids, err
		}
		for _, e := range entries {
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

// hasProcess reports whether a process runs in a cgroup or a descendant, or may run there: a cgroup
// that cannot be read, or has too many processes to read, is not one without any.
func (h Hierarchy) hasProcess(cgroup string) bool {
	if h.Version == V1 {
		pids, err := h.Processes(cgroup)
		return len(pids) > 0 || err != nil && !errors.Is(err, ErrGone)
	}
	name := h.Path(path.Join(cgroup, "cgroup.events"))
	content, err := os.ReadFile(name)
	if err != nil {
		return !errors.Is(fileError("read", name, err), ErrGone)
	}
	return strings.Contains(string(content), "populated 1\n")
}

// entries lists the directory of a cgroup, up to maxEntries, which is enough to notice too many
// descendants. It returns none if the cgroup is gone.
func (h Hierarchy) entries(cgroup string) ([]os.DirEntry, error) {
	dir, err := os.Open(h.Path(cgroup))
	if err != nil {
		if err = fileError("open", h.Path(cgroup), err); errors.Is(err, ErrGone) {
			return nil, nil
		}
		return nil, err
	}
	defer dir.Close()                     //nolint:errcheck // nothing was written
	entries, _ := dir.ReadDir(maxEntries) // an error at the end, or of a cgroup that goes
	return entries, nil
}

func (h Hierarchy) processesOf(cgroup string) ([]int, error) {
	name := h.Path(path.Join(cgroup, "cgroup.procs"))
	file, err := os.Open(name)
	if err != nil {
		return nil, fileError("open", name, err)
	}
	defer file.Close()                                                //nolint:errcheck // nothing was written
	content, err := io.ReadAll(io.LimitReader(file, maxProcsBytes+1)) // the kernel returns a page at a time
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

// Kill makes the kernel kill all processes in a cgroup of version 2 and its descendants. It returns an
// error if the kernel cannot: before Linux 5.14, for a threaded cgroup, and in version 1.
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
