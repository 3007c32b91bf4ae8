package nodefs

import (
	"os"
	"path"
	"slices"
	"strings"
)

// An ownCgroup is a cgroup of this process or an ancestor of it.
type ownCgroup struct {
	dir     string
	unified bool
}

// ownCgroups returns the cgroups of a controller and of the unified hierarchy, without the roots, by
// the content of /proc/PID/cgroup.
func ownCgroups(membership, controller string) (all []ownCgroup) {
	for line := range strings.Lines(membership) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, cgroup, _ := strings.Cut(rest, ":")
		dir, unified := "/sys/fs/cgroup", controllers == ""
		switch {
		case slices.Contains(strings.Split(controllers, ","), controller):
			dir = path.Join(dir, controller)
		case !unified:
			continue
		}
		for at := path.Clean("/" + cgroup); at != "/"; at = path.Dir(at) {
			all = append(all, ownCgroup{path.Join(dir, at), unified})
		}
	}
	return all
}

// OwnMemoryLimit returns the least memory limit of this process's cgroup and its ancestors, 0 without
// one. Inside a cgroup namespace it is not seen.
func OwnMemoryLimit() (bytes int64) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return memoryLimit(FS{}, string(membership))
}

// memoryLimit is OwnMemoryLimit for the content of /proc/PID/cgroup.
func memoryLimit(f FS, membership string) (least int64) {
	for _, own := range ownCgroups(membership, "memory") {
		file := "memory.limit_in_bytes"
		if own.unified {
			file = "memory.max"
		}
		text, err := os.ReadFile(f.Path(path.Join(own.dir, file)))
		if err != nil {
			continue // the controller is not used there
		}
		if limit, limited, err := parseLimit(text); err == nil && limited && (least == 0 || limit < least) {
			least = limit
		}
	}
	return least
}
