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

// endTime bounds the wait for the processes of a cgroup to die. One in uninterruptible sleep
// keeps the cgroup, nothing else.
const endTime = 2 * time.Second

// A cgroup confines one start of a plugin, in each hierarchy. A nil cgroup has no parts.
type cgroup struct {
	parts []part
	// handle is an open directory in version 2, back what the starting thread
	// returns to in version 1.
	handle *os.File
	back   []cgroupDir
}

// A part is a cgroup in one hierarchy.
type part struct {
	hierarchy hierarchy
	dir       cgroupDir
}

// open is for prepare and join.
func (g *cgroup) open() (err error) {
	if g != nil && g.parts[0].hierarchy.v2() {
		g.handle, err = os.Open(string(g.parts[0].dir))
	}
	return err
}

// prepare has the kernel put the process into the cgroup when it makes it (version
// 2 only).
func (g *cgroup) prepare(attr *syscall.SysProcAttr) {
	if g != nil && g.handle != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, int(g.handle.Fd())
	}
}

// join puts the calling thread into the cgroup, so that its children are born there
// (version 1, which takes threads). leave is to be called in any case.
func (g *cgroup) join() error {
	if g == nil || g.handle != nil {
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
	if g == nil {
		return nil
	}
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

// end kills what is left in the cgroup, whatever it did to leave its process group,
// and removes it.
func (g *cgroup) end() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, p := range g.parts {
		errs = append(errs, p.dir.remove())
	}
	return errors.Join(errs...)
}

// outOfMemory reports whether the kernel killed something in the cgroup since it
// had reached its limit.
func (g *cgroup) outOfMemory() bool {
	if g == nil {
		return false
	}
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
	// Not os.WriteFile, which would make what is missing.
	f, err := os.OpenFile(filepath.Join(string(d), file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}

// remove kills what is in the cgroup and removes it.
func (d cgroupDir) remove() error {
	// Nothing new is born meanwhile, where there is a limit for it.
	_ = d.write("pids.max", "0")
	deadline := time.NewTimer(endTime)
	defer deadline.Stop()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		d.kill()
		for _, below := range leaves(string(d)) { // which the plugin has made
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

// kill sends SIGKILL to every process in the cgroup, but never to the host, which
// has a thread there while it starts a process.
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

// processes returns who is in the cgroup.
func (d cgroupDir) processes() []int {
	content, _ := os.ReadFile(filepath.Join(string(d), "cgroup.procs")) // Gone with the last of them.
	var pids []int
	for line := range bytes.Lines(content) {
		if pid, err := strconv.Atoi(string(bytes.TrimSpace(line))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killOne kills a process if it is in the cgroup: its number may be another one's by
// now.
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
