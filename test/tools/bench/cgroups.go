package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/test/harness/stack"
)

// leftoverPrefix begins the name of everything that a run creates outside of its processes; the
// run's PID follows.
const leftoverPrefix = "evictd-bench-"

// cgroups is a cgroup tree of pods like that of the kubelet's cgroupfs driver.
type cgroups struct {
	mount string
	// root is the value of cgroupRoot, "/evictd-bench-PID".
	root string
	pods int
}

// newCgroups makes an empty tree whose "kubepods" is limited to limitBytes of memory.
func newCgroups(name string, limitBytes int64) (*cgroups, error) {
	mount, v2, err := stack.MemoryCgroup()
	if err != nil {
		return nil, err
	}
	if v2 {
		return nil, errors.New("the memory controller is on cgroup v2, want a cgroup v1 hierarchy: only that has notifications to measure")
	}
	g := &cgroups{mount: mount, root: "/" + name}
	if err := os.MkdirAll(g.path("burstable"), 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("make cgroups: %w", err), g.remove())
	}
	if err := os.WriteFile(g.path("memory.limit_in_bytes"), strconv.AppendInt(nil, limitBytes, 10), 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("limit cgroups: %w", err), g.remove())
	}
	return g, nil
}

// path returns a path below the cgroup of all pods.
func (g *cgroups) path(below ...string) string {
	return filepath.Join(append([]string{g.mount, g.root, "kubepods"}, below...)...)
}

// pod returns the directory of a pod's cgroup.
func (g *cgroups) pod(i int) string { return g.path("burstable", "pod"+podUID(i)) }

// grow makes cgroups of pods, each with one container and no process, until there are that many.
func (g *cgroups) grow(pods int) error {
	for ; g.pods < pods; g.pods++ {
		if err := os.MkdirAll(filepath.Join(g.pod(g.pods), containerID(g.pods)), 0o755); err != nil {
			return fmt.Errorf("make cgroup of pod %d: %w", g.pods, err)
		}
	}
	return nil
}

// remove removes the tree. It retries, since the last process may only just have left it.
func (g *cgroups) remove() error {
	return removeTree(filepath.Join(g.mount, g.root), 3*time.Second)
}

// removeTree removes directories that contain only files that rmdir removes too.
func removeTree(dir string, timeout time.Duration) error {
	for deadline := time.Now().Add(timeout); ; time.Sleep(5 * time.Millisecond) {
		var dirs []string
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for _, d := range slices.Backward(dirs) {
			if e := syscall.Rmdir(d); e != nil && !errors.Is(e, syscall.ENOENT) {
				err = &os.PathError{Op: "rmdir", Path: d, Err: e}
			}
		}
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// sweep removes the cgroups and files of a run that was killed. Its processes end by themselves.
func sweep(ctx context.Context) error {
	mount, _, err := stack.MemoryCgroup()
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range []string{mount, tasksDir(""), os.TempDir(), memoryDir} {
		left, err := filepath.Glob(filepath.Join(dir, leftoverPrefix+"*"))
		errs = append(errs, err)
		for _, path := range left {
			if ctx.Err() != nil || ownerAlive(path) {
				continue
			}
			disks, _ := filepath.Glob(filepath.Join(path, "site-*", "disk")) // the pattern is right
			for _, disk := range disks {
				_ = unix.Unmount(disk, unix.MNT_DETACH) // it may not be mounted
			}
			if dir == mount || dir == tasksDir("") {
				errs = append(errs, removeTree(path, 3*time.Second))
			} else {
				errs = append(errs, os.RemoveAll(path))
			}
		}
	}
	return errors.Join(errs...)
}

func ownerAlive(path string) bool {
	pid, err := strconv.Atoi(filepath.Base(path)[len(leftoverPrefix):])
	return err != nil || syscall.Kill(pid, 0) == nil
}
