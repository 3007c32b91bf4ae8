package nodefs

import (
	"os"
	"path"
	"slices"
	"strings"
)

// OwnMemoryLimit returns the least memory limit of this process's cgroup and its ancestors, as far as
// this process sees them, and 0 without one.
func OwnMemoryLimit() (bytes int64) {
	membership, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	return memoryLimit(FS{}, string(membership))
}

// memoryLimit is OwnMemoryLimit for the content of /proc/PID/cgroup.
func memoryLimit(f FS, membership string) (least int64) {
	for line := range strings.Lines(membership) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, cgroup, _ := strings.Cut(rest, ":")
		dir, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case slices.Contains(strings.Split(controllers, ","), "memory"):
			dir, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case controllers != "":
			continue
		}
		for at := path.Clean("/" + cgroup); ; at = path.Dir(at) {
			text, err := os.ReadFile(f.Path(path.Join(dir, at, file)))
			if err == nil { // else the controller is not used there
				if limit, limited, err := parseLimit(text); err == nil && limited && (least == 0 || limit < least) {
					least = limit
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return least
}
