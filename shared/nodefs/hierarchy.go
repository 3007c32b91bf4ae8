package nodefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
)

// Version is a version of the cgroup interface.
type Version uint8

// The versions.
const (
	V1 Version = 1
	V2 Version = 2
)

// Hierarchy is the cgroup hierarchy that has one controller.
type Hierarchy struct {
	FS      FS
	Version Version
	// Dir is its mount point on the node.
	Dir string
}

// controller is a controller and a file that exists in the root of its version 1 hierarchy, but
// in no cgroup of version 2.
type controller struct {
	name   string
	v1File string
}

var (
	memoryController = controller{name: "memory", v1File: "memory.usage_in_bytes"}
	pidsController   = controller{name: "pids", v1File: "tasks"} // its root has no pids.current
)

// MemoryHierarchy finds the hierarchy that has the memory controller.
func (f FS) MemoryHierarchy() (Hierarchy, error) { return f.hierarchy(memoryController) }

// PIDsHierarchy finds the hierarchy that has the pids controller.
func (f FS) PIDsHierarchy() (Hierarchy, error) { return f.hierarchy(pidsController) }

// PodsHierarchy finds a hierarchy that shows which cgroups and processes pods have: that of the
// memory controller, or else of pids.
func (f FS) PodsHierarchy() (Hierarchy, error) {
	h, err := f.MemoryHierarchy()
	if err != nil {
		h, err = f.PIDsHierarchy()
	}
	return h, err
}

// hierarchy searches the usual mount points for a controller. Version 1 comes first: on a hybrid
// node both are mounted, and version 2 does not list a controller that a version 1 hierarchy uses.
func (f FS) hierarchy(c controller) (Hierarchy, error) {
	var errs []error
	for _, h := range []Hierarchy{
		{FS: f, Version: V1, Dir: "/sys/fs/cgroup/" + c.name},
		{FS: f, Version: V2, Dir: "/sys/fs/cgroup"},
		{FS: f, Version: V2, Dir: "/sys/fs/cgroup/unified"},
	} {
		err := h.serves(c)
		if err == nil {
			return h, nil
		}
		errs = append(errs, err)
	}
	if f.kernelLacks(c.name) {
		return Hierarchy{}, MissingController(c.name)
	}
	return Hierarchy{}, fmt.Errorf("no cgroup hierarchy with a %s controller: %w", c.name, errors.Join(errs...))
}

// A MissingController is a cgroup controller that the kernel was built or started without.
type MissingController string

// Error implements error.
func (c MissingController) Error() string {
	return fmt.Sprintf("the kernel has no %[1]s cgroup controller: add cgroup_enable=%[1]s to its command line", string(c))
}

// kernelLacks reports whether the kernel says that a controller is off, or does not list it.
func (f FS) kernelLacks(controller string) bool {
	file, err := f.Open("/proc/cgroups")
	if err != nil {
		return false
	}
	defer file.Close()
	content, err := file.Read(&Buffer{})
	for line := range bytes.Lines(content) {
		if fields := bytes.Fields(line); len(fields) == 4 && string(fields[0]) == controller {
			return string(fields[3]) == "0"
		}
	}
	return err == nil
}

func (h Hierarchy) serves(c controller) error {
	name := path.Join(h.Dir, "cgroup.controllers")
	if h.Version == V1 {
		name = path.Join(h.Dir, c.v1File)
	}
	file, err := h.FS.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if h.Version == V1 {
		return nil
	}
	content, err := file.Read(&Buffer{})
	if err != nil {
		return err
	}
	if !hasController(content, c.name) {
		return fmt.Errorf("%s does not list %s", file.Path(), c.name)
	}
	return nil
}

// hasController reports whether cgroup.controllers lists a controller.
func hasController(content []byte, name string) bool {
	for field := range bytes.FieldsSeq(content) {
		if string(field) == name {
			return true
		}
	}
	return false
}

// Path returns the path at which this process finds a cgroup's directory.
func (h Hierarchy) Path(cgroup string) string {
	return h.FS.Path(path.Join(h.Dir, cgroup))
}

// Exists reports whether a cgroup exists.
func (h Hierarchy) Exists(cgroup string) bool {
	stat, err := os.Stat(h.Path(cgroup))
	return err == nil && stat.IsDir()
}

func (h Hierarchy) open(cgroup, file string) (*File, error) {
	return h.FS.Open(path.Join(h.Dir, cgroup, file))
}
