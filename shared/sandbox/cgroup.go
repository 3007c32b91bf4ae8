package sandbox

import (
	"bytes"
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

	"golang.org/x/sys/unix"
)

// endTime limits the wait for the processes of a cgroup to die. One in uninterruptible sleep
// only keeps the cgroup in place.
const endTime = 2 * time.Second

// A cgroup confines one start of a plugin, in each hierarchy. It has no parts if there are no limits.
type cgroup struct {
	parts []part
	// handle is the open directory in version 2; back are the cgroups to which the starting
	// thread returns in version 1.
	handle *os.File
	back   []cgroupDir
}

// A part is a cgroup in one hierarchy.
type part struct {
	hierarchy hierarchy
	dir       cgroupDir
}

// open opens the directory in version 2, for prepare and join.
func (g *cgroup) open() (err error) {
	if len(g.parts) > 0 && g.parts[0].hierarchy.v2() {
		g.handle, err = os.Open(string(g.parts[0].dir))
	}
	return err
}

// prepare makes the kernel create the process in the cgroup (version 2 only).
func (g *cgroup) prepare(attr *syscall.SysProcAttr) {
	if g.handle != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.handle.Fd())
	}
}

// join moves the calling thread into the cgroup, so that its children start there (version 1,
// which accepts single threads). Call leave in any case.
func (g *cgroup) join() error {
	if len(g.parts) == 0 || g.handle != nil {
		return nil
	}
	own, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return fmt.Errorf("join cgroup: %w", err)
	}
	in := parseMembership(string(own))
	for _, p := range g.parts {
		back, err := p.hierarchy.dir(in[p.hierarchy.first()])
		if err == nil {
			err = p.dir.write("tasks", "0")
		}
		if err != nil {
			return fmt.Errorf("join cgroup: %w", err)
		}
		g.back = append(g.back, cgroupDir(back))
	}
	return nil
}

// leave undoes join.
func (g *cgroup) leave() error {
	if g.handle != nil {
		_ = g.handle.Close()
		return nil
	}
	var errs []error
	for _, dir := range g.back {
		errs = append(errs, dir.write("tasks", "0"))
	}
	g.back = nil
	return errors.Join(errs...)
}

// end removes the cgroup with all its processes, including those that have left the process group.
func (g *cgroup) end() error {
	var errs []error
	for _, p := range g.parts {
		errs = append(errs, p.dir.remove())
	}
	return errors.Join(errs...)
}

// outOfMemory reports whether the kernel killed a process because the cgroup was at its memory limit.
func (g *cgroup) outOfMemory() bool {
	for _, p := range g.parts {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			content, _ := os.ReadFile(filepath.Join(string(p.dir), file))
			for line := range strings.Lines(string(content)) {
				if count, ok := strings.CutPrefix(line, "oom_kill "); ok && strings.TrimSpace(count) != "0" {
					return true
				}
			}
		}
	}
	return false
}

// A cgroupDir is the directory of one cgroup.
type cgroupDir string

func (d cgroupDir) write(file, value string) error {
	// Not os.WriteFile, which would create a missing file.
	f, err := os.OpenFile(filepath.Join(string(d), file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// remove kills all processes in the cgroup and removes it.
func (d cgroupDir) remove() error {
	// Prevent new processes meanwhile, if there is a limit of tasks.
	_ = d.write("pids.max", "0")
	deadline := time.NewTimer(endTime)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		d.kill()
		for _, below := range leaves(string(d)) { // made by the plugin
			_ = cgroupDir(below).remove()
		}
		err := os.Remove(string(d))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		select {
		case <-look.C:
		case <-deadline.C:
			return fmt.Errorf("remove cgroup of a plugin: %w", err)
		}
	}
}

// kill sends SIGKILL to every process in the cgroup except the host, which has a thread there
// while it starts a process.
func (d cgroupDir) kill() {
	if d.write("cgroup.kill", "1") == nil {
		return
	}
	for _, pid := range d.processes() {
		if pid > 1 && pid != os.Getpid() {
			d.killOne(pid)
		}
	}
}

// processes returns the PIDs in the cgroup.
func (d cgroupDir) processes() []int {
	content, _ := os.ReadFile(filepath.Join(string(d), "cgroup.procs")) // The file is gone with the cgroup.
	var pids []int
	for line := range bytes.Lines(content) {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killOne kills a process if it is still in the cgroup: its PID may have been reused meanwhile.
func (d cgroupDir) killOne(pid int) {
	handle, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) { // Linux before 5.3, or a seccomp profile
		_ = unix.Kill(pid, unix.SIGKILL)
		return
	}
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(handle) }()
	if slices.Contains(d.processes(), pid) {
		_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
	}
}
