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

// Hierarchy is the cgroup hierarchy that has the memory controller.
type Hierarchy struct {
	FS      FS
	Version Version
	// Dir is where it is mounted, on the node.
	Dir string
}

// The places where the memory controller is looked for. Version 1 comes first:
// on a hybrid node both are mounted, and a controller that a version 1 hierarchy
// has taken is missing from the list of the other.
var hierarchyPlaces = []Hierarchy{
	{Version: V1, Dir: "/sys/fs/cgroup/memory"},
	{Version: V2, Dir: "/sys/fs/cgroup"},
	{Version: V2, Dir: "/sys/fs/cgroup/unified"},
}

// MemoryHierarchy finds the hierarchy that has the memory controller.
func (f FS) MemoryHierarchy() (Hierarchy, error) {
	var errs []error
	for _, h := range hierarchyPlaces {
		h.FS = f
		err := h.servesMemory()
		if err == nil {
			return h, nil
		}
		errs = append(errs, err)
	}
	return Hierarchy{}, fmt.Errorf("no cgroup hierarchy with a memory controller: %w", errors.Join(errs...))
}

func (h Hierarchy) servesMemory() error {
	name := path.Join(h.Dir, "cgroup.controllers")
	if h.Version == V1 {
		name = path.Join(h.Dir, "memory.usage_in_bytes")
	}
	file, err := h.FS.Open(name)
	if err != nil || h.Version == V1 {
		if err == nil {
			file.Close()
		}
		return err
	}
	defer file.Close()
	content, err := file.Read(&Buffer{})
	if err != nil {
		return err
	}
	if !hasController(content, "memory") {
		return fmt.Errorf("%s does not list memory", file.Path())
	}
	return nil
}

// hasController tells whether cgroup.controllers lists a controller.
func hasController(content []byte, name string) bool {
	for field := range bytes.FieldsSeq(content) {
		if string(field) == name {
			return true
		}
	}
	return false
}

// Path returns the directory of a cgroup, below the root.
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
