package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/evictd/evictd/shared/nodefs"
)

// A hierarchy is one mounted cgroup tree: each v1 controller has its own, v2 has one.
type hierarchy struct {
	mount string
	v2    bool
	// controllers of a v1 tree, for example "memory".
	controllers []string
}

// hierarchies lists the mounted cgroup trees.
func hierarchies() ([]hierarchy, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list cgroup hierarchies: %w", err)
	}
	all := parseHierarchies(raw)
	if len(all) == 0 {
		return nil, errors.New("list cgroup hierarchies: no cgroup filesystem is mounted")
	}
	return all, nil
}

// parseHierarchies reads mountinfo.
func parseHierarchies(mountinfo []byte) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(string(mountinfo)) {
		if m, ok := nodefs.ParseMount(line); ok && strings.HasPrefix(m.Kind, "cgroup") {
			out = append(out, hierarchy{mount: m.Point, v2: m.Kind == "cgroup2", controllers: strings.Split(m.Options, ",")})
		}
	}
	return out
}

// has reports whether the v1 tree has the controller.
func (h hierarchy) has(controller string) bool {
	return !h.v2 && slices.Contains(h.controllers, controller)
}

// tracker returns the tree by which the processes of a stack are found: memory on v1, else the
// v2 tree.
func tracker(all []hierarchy) (hierarchy, error) {
	var unified *hierarchy
	for i := range all {
		if all[i].has("memory") {
			return all[i], nil
		}
		if all[i].v2 {
			unified = &all[i]
		}
	}
	if unified == nil {
		return hierarchy{}, errors.New("neither a memory cgroup hierarchy nor cgroup v2 is mounted")
	}
	return *unified, nil
}

// MemoryCgroup returns the mount point of the memory hierarchy and whether it is cgroup v2.
func MemoryCgroup() (mount string, v2 bool, err error) {
	all, err := hierarchies()
	if err != nil {
		return "", false, err
	}
	h, err := tracker(all)
	return h.mount, h.v2, err
}

// makeCgroup makes path in every tree. It copies the parent's cpuset on v1, since an empty one
// would refuse processes.
func makeCgroup(all []hierarchy, path string) error {
	for _, h := range all {
		dir := filepath.Join(h.mount, path)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return fmt.Errorf("make cgroup: %w", err)
		}
		if !h.has("cpuset") {
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
			}
			if err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
		}
	}
	return nil
}

// cgroupDirs returns the existing directories of the subtree in all trees, children first.
func cgroupDirs(all []hierarchy, path string) []string {
	var out []string
	for _, h := range all {
		var dirs []string
		// Directories may vanish during the walk, as intended.
		_ = filepath.WalkDir(filepath.Join(h.mount, path), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
		slices.Reverse(dirs)
		out = append(out, dirs...)
	}
	return out
}

// cgroupProcesses returns the PIDs in the subtree, in any tree, except this process.
func cgroupProcesses(all []hierarchy, path string) map[int]bool {
	pids := map[int]bool{}
	for _, dir := range cgroupDirs(all, path) {
		raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if err != nil {
			continue // removed meanwhile
		}
		for field := range strings.FieldsSeq(string(raw)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
				pids[pid] = true
			}
		}
	}
	return pids
}

// removeCgroup kills all processes in the subtree and removes it.
func removeCgroup(ctx context.Context, all []hierarchy, path string) error {
	err := poll(ctx, 5*time.Millisecond, func() (bool, error) {
		pids := cgroupProcesses(all, path)
		for pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("kill processes in cgroup %s: %w", path, err)
	}
	var last error
	err = poll(ctx, 5*time.Millisecond, func() (bool, error) {
		dirs := cgroupDirs(all, path)
		for _, dir := range dirs {
			if err := syscall.Rmdir(dir); err != nil { // EBUSY for a moment after the last exit
				last = &os.PathError{Op: "rmdir", Path: dir, Err: err}
			}
		}
		return len(dirs) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("remove cgroup %s: %w", path, errors.Join(err, last))
	}
	return nil
}

// poll calls done until it reports true or an error, or ctx ends.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Pause waits for d, or returns ctx's error.
func Pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
