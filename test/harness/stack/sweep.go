package stack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Sweep removes what dead owners left behind. It does not touch the stacks of living owners.
func Sweep(ctx context.Context) error {
	records, err := abandoned()
	if err != nil || len(records) == 0 {
		return err
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range records {
		if err := r.remove(ctx, all); err != nil {
			errs = append(errs, fmt.Errorf("remove what %s left behind: %w", r.ID, err))
		}
	}
	return errors.Join(errs...)
}

// remove removes everything that the record names and checks that it is gone.
func (r record) remove(ctx context.Context, all []hierarchy) error {
	if err := removeCgroup(ctx, all, r.Cgroup); err != nil {
		return err // while something may still run, its files must stay
	}
	// Remove no files while anything is mounted below: it may be someone else's data.
	if err := errors.Join(unmountBelow(r.Dir), waitDevices(ctx, r.Dir)); err != nil {
		return err
	}
	if left := mountsBelow(r.Dir); len(left) > 0 {
		return fmt.Errorf("still mounted: %v", left)
	}
	errs := []error{os.RemoveAll(r.Dir), writeSysctls(r.Sysctls)}
	for _, dir := range r.MadeDirs {
		// Remove only empty directories: others may be in use by now.
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EBUSY) {
			errs = append(errs, err)
		}
	}
	errs = append(errs, r.leftovers(all))
	if err := errors.Join(errs...); err != nil {
		return err // the record stays, for the next sweep
	}
	return r.forget()
}

// unmountBelow unmounts what a test has mounted; containerd's mounts end with their namespace.
func unmountBelow(dir string) error {
	var errs []error
	for _, point := range slices.Backward(mountsBelow(dir)) {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// waitDevices waits until the loop devices are free: a namespace's mounts end a
// moment after its last process.
func waitDevices(ctx context.Context, dir string) error {
	var left []string
	err := poll(ctx, 10*time.Millisecond, func() (bool, error) {
		left = devicesOf(dir)
		return len(left) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the loop devices %v: %w", left, err)
	}
	return nil
}

// devicesOf returns the loop devices with files in dir.
func devicesOf(dir string) []string {
	var out []string
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is well-formed
	for _, file := range files {
		backing, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(backing), dir+"/") {
			out = append(out, strings.Split(file, "/")[3])
		}
	}
	return out
}

func mountsBelow(dir string) []string {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var out []string
	for line := range bytes.Lines(raw) {
		if f := bytes.Fields(line); len(f) > 4 && strings.HasPrefix(string(f[4])+"/", dir+"/") {
			out = append(out, string(f[4]))
		}
	}
	return out
}

// leftovers inspects the machine itself instead of the record: it returns an error for each
// cgroup, mount, file and process with the stack's name.
func (r record) leftovers(all []hierarchy) error {
	var errs []error
	for _, dir := range cgroupDirs(all, r.Cgroup) {
		errs = append(errs, fmt.Errorf("left behind: cgroup %s", dir))
	}
	for _, mount := range mountsBelow(r.Dir) {
		errs = append(errs, fmt.Errorf("left behind: mount %s", mount))
	}
	if _, err := os.Lstat(r.Dir); err == nil {
		errs = append(errs, fmt.Errorf("left behind: directory %s", r.Dir))
	}
	for pid, command := range processesNaming(r.Dir) {
		errs = append(errs, fmt.Errorf("left behind: process %s (%s)", pid, command))
	}
	return errors.Join(errs...)
}

// processesNaming returns, by PID, the processes whose command line, program or working directory
// is in dir.
func processesNaming(dir string) map[string]string {
	found := map[string]string{}
	entries, _ := filepath.Glob("/proc/[0-9]*")
	for _, entry := range entries {
		command, err := os.ReadFile(filepath.Join(entry, "cmdline"))
		if err != nil || entry == fmt.Sprintf("/proc/%d", os.Getpid()) {
			continue
		}
		exe, _ := os.Readlink(filepath.Join(entry, "exe")) // empty for kernel threads and the dead
		cwd, _ := os.Readlink(filepath.Join(entry, "cwd"))
		for _, text := range []string{string(command), exe, cwd} {
			if strings.Contains(text, dir+"/") {
				found[filepath.Base(entry)] = strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
	}
	return found
}
