package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"

	"github.com/evictd/evictd/shared/eviction"
)

// attacks are attacks of the plugin "attacks" on the host and the node, harmless where possible.
// Each returns nil if it succeeded.
var attacks = []struct {
	name string
	try  func() error
}{
	{"signal the host", func() error { return syscall.Kill(os.Getppid(), 0) }},
	{"trace the host", traceHost},
	{"write to the host's memory", func() error { return openFirst("mem", os.O_RDWR) }},
	{"see the host's descriptors", func() error {
		_, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/0", os.Getppid()))
		return err
	}},
	{"list the run directory", func() error { _, err := os.ReadDir(runDir()); return err }},
	{"connect to other plugins", connectToOthers},
	{"put a plugin in place", func() error {
		name := filepath.Join(filepath.Dir(os.Args[0]), ".attack")
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			return err
		}
		return os.Remove(name)
	}},
	{"change a file of root", func() error {
		f, err := os.OpenFile("/etc/passwd", os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}},
	{"become another user", func() error { return syscall.Setresuid(1-min(1, os.Getuid()), -1, -1) }},
	{"leave its cgroups", func() error {
		child, err := escape()
		if child != nil {
			_ = child.Process.Kill()
			_ = child.Wait()
		}
		return err
	}},
	{"mount", func() error {
		if err := syscall.Mount("none", "/mnt", "tmpfs", 0, ""); err != nil {
			return err
		}
		return syscall.Unmount("/mnt", 0)
	}},
	{"open a raw socket", func() error {
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
		if err != nil {
			return err
		}
		return syscall.Close(fd)
	}},
	{"raise its limit of open files", func() error {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
			return err
		}
		return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: l.Max + 1, Max: l.Max + 1})
	}},
}

// escape starts a process in a new session and moves it to the root of each cgroup hierarchy.
func escape() (*exec.Cmd, error) {
	child := exec.Command("/proc/self/exe", "child")
	child.Env = []string{"NOTHING=1"}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := child.Start(); err != nil {
		return nil, err
	}
	var errs []error
	for _, pattern := range []string{"/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/*/cgroup.procs"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			if f, err := os.OpenFile(file, os.O_WRONLY, 0); err == nil {
				_, err = f.WriteString(strconv.Itoa(child.Process.Pid))
				errs = append(errs, err, f.Close())
			}
		}
	}
	in, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", child.Process.Pid))
	if strings.Contains(string(in), "evictd-plugins-") {
		err = errors.Join(append(errs, errors.New("it is still in a cgroup of plugins"))...)
	}
	return child, err
}

func runDir() string { return filepath.Dir(filepath.Clean(os.Getenv(plugin.EnvUnixSocketDir))) }

// attack runs the attacks and returns their results.
func attack() []eviction.Component {
	results := make([]eviction.Component, 0, len(attacks))
	for _, a := range attacks {
		result := a.name + ": done"
		if err := a.try(); err != nil {
			result = a.name + ": " + err.Error()
		}
		results = append(results, eviction.Component{Name: result})
	}
	return results
}

// hostThreads returns the thread IDs of the host.
func hostThreads() []int {
	found, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", os.Getppid()))
	threads := make([]int, 0, len(found))
	for _, name := range found {
		if n, err := strconv.Atoi(filepath.Base(name)); err == nil {
			threads = append(threads, n)
		}
	}
	return threads
}

// traceHost tries to trace each thread of the host, without stopping it.
func traceHost() error {
	const seize = 0x4206 // PTRACE_SEIZE
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := errors.New("no thread")
	for _, tid := range hostThreads() {
		_, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, seize, uintptr(tid), 0, 0, 0, 0)
		if errno == 0 {
			_ = syscall.PtraceDetach(tid)
			return nil
		}
		err = errno
	}
	return err
}

func openFirst(file string, flag int) error {
	err := errors.New("no thread")
	for _, tid := range hostThreads() {
		var f *os.File
		if f, err = os.OpenFile(fmt.Sprintf("/proc/%d/task/%d/%s", os.Getppid(), tid, file), flag, 0); err == nil {
			return f.Close()
		}
	}
	return err
}

// connectToOthers tries to connect to the sockets of the other plugins.
func connectToOthers() error {
	dirs, err := os.ReadDir(runDir())
	for _, dir := range dirs {
		sockets, _ := filepath.Glob(filepath.Join(runDir(), dir.Name(), "plugin*"))
		for _, name := range sockets {
			if filepath.Dir(name) == filepath.Clean(os.Getenv(plugin.EnvUnixSocketDir)) {
				continue
			}
			var c net.Conn
			if c, err = net.DialTimeout("unix", name, time.Second); err == nil {
				return c.Close()
			}
		}
	}
	if err == nil {
		err = errors.New("no socket")
	}
	return err
}
