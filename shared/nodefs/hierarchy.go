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
	if why := f.missing(c.name); why != "" {
		return Hierarchy{}, MissingController{c.name, why}
	}
	return Hierarchy{}, fmt.Errorf("no cgroup hierarchy with a %s controller: %w", c.name, errors.Join(errs...))
}

// A MissingController is a cgroup controller that is not there, with the reason.
type MissingController struct{ Name, Why string }

// Error implements error.
func (c MissingController) Error() string {
	return fmt.Sprintf("no %s cgroup controller: %s", c.Name, c.Why)
}

// missing returns why a controller is not there, "" if /proc/cgroups has it or is not there either. That file has version 1 alone
// with CONFIG_MEMCG_V1=n, so that a line that it lacks says nothing of version 2.
func (f FS) missing(controller string) string {
	file, err := f.Open("/proc/cgroups")
	if err != nil {
		return ""
	}
	defer file.Close()
	content, err := file.Read(&Buffer{})
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(content) {
		if fields := bytes.Fields(line); len(fields) == 4 && string(fields[0]) == controller {
			if string(fields[3]) == "0" {
				return fmt.Sprintf("the kernel was started without it; add cgroup_enable=%s to its command line", controller)
			}
			return ""
		}
	}
	for _, dir := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		if file, err := f.Open(dir + "/cgroup.type"); err == nil { // which the root has not
			file.Close()
			return fmt.Sprintf("it is not delegated to %s; add it to cgroup.subtree_control of the parent, or mount the root of the node's cgroups there", dir)
		}
	}
	return fmt.Sprintf("the kernel was built without it; want one with CONFIG_%s=y", map[string]string{"memory": "MEMCG", "pids": "CGROUP_PIDS"}[controller])
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
