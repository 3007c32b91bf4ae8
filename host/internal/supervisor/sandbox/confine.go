package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/host/internal/capability"
	"github.com/evictd/evictd/host/internal/supervisor/plugindir"
)

// A confinement is how one process is started: what is left to it of the host's
// rights. See docs/decisions/0012.
type confinement struct {
	// credential is who it runs as, nil for the host's user.
	credential *syscall.Credential
	keep       capability.Set
	cgroup     *cgroup // nil if it has none
	// unlimited is why the cgroup is not what it should be.
	unlimited error
	files     uint64 // 0 for the host's limit
	// expendable processes are not spared when the node runs out of memory, as the
	// host may be.
	expendable bool
}

// confine works out the confinement for t, without its cgroup.
func confine(t Policy) (confinement, error) {
	c := confinement{keep: t.allowed, files: t.files, expendable: t.expendable}
	var err error
	if c.credential, err = credential(t.user, t.group); err != nil {
		return c, err
	}
	own, err := ownCapabilities()
	if err != nil {
		return c, err
	}
	if lacking := t.allowed &^ own; t.asked && lacking != 0 {
		return c, fmt.Errorf("capabilities: evictd does not have %s itself, want a subset of %s", lacking, own)
	}
	c.keep &= own
	return c, nil
}

// prepare makes the rest of cmd's attributes.
func (c *confinement) prepare(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	uid := uint32(os.Geteuid())
	attr.Credential = c.credential
	if c.credential != nil {
		uid = c.credential.Uid
	}
	if uid != 0 {
		// A program of another user than root loses all but these.
		for n := range c.keep.Numbers() {
			attr.AmbientCaps = append(attr.AmbientCaps, uintptr(n))
		}
	}
	c.cgroup.prepare(attr)
	cmd.SysProcAttr = attr
}

// enter confines the calling thread, which must be locked and end with the process
// that it starts: nothing of this can be taken back, and a child inherits it.
//
// The thread keeps the capabilities that are in force: it needs some of them to
// start a process as somebody else, and a plugin without any could trace a thread
// of the host that has none either, and with it the host.
func (c *confinement) enter() error {
	// The working directory and the umask are the process's unless this succeeds,
	// which a container's seccomp profile may prevent. Plugins can change their
	// umask anyway.
	if unix.Unshare(unix.CLONE_FS) == nil {
		unix.Umask(0o077)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	if err := c.dropGroups(); err != nil {
		return err
	}
	return c.dropCapabilities()
}

// dropGroups leaves root's supplementary groups behind. Those of a plugin that has
// a user are dropped with setuid.
func (c *confinement) dropGroups() error {
	if c.credential != nil || os.Geteuid() != 0 {
		return nil
	}
	// The system call, since the C library's and Go's change all threads.
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
	if errno != 0 && errno != unix.EPERM {
		return fmt.Errorf("drop supplementary cgroups: %w", errno)
	}
	return nil
}

// dropCapabilities leaves to programs of root what is in keep: they get the
// bounding set, and under no_new_privs no more than the thread has.
func (c *confinement) dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	permitted := capability.Set(data[0].Permitted) | capability.Set(data[1].Permitted)<<32
	for n := range 64 {
		bounded, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(n), 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			return nil // the kernel has no more
		}
		if err != nil {
			return fmt.Errorf("read the bounding set: %w", err)
		}
		if bounded == 0 || c.keep.Has(n) {
			continue
		}
		err = unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0)
		if err != nil && permitted.Has(n) && os.Geteuid() == 0 {
			return fmt.Errorf("drop %s: %w; evictd needs CAP_SETPCAP for that", capability.Set(1<<n), err)
		}
		// Otherwise a child cannot get it, having no way to gain what the thread
		// does not have.
	}
	return nil
}

// ownCapabilities are those of this process.
func ownCapabilities() (capability.Set, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0, fmt.Errorf("read capabilities: %w", err)
	}
	return capability.Set(data[0].Permitted) | capability.Set(data[1].Permitted)<<32, nil
}

// limit lowers limits that belong to a process as a whole, right after it was
// started: before, they would be the host's.
func (c *confinement) limit(pid int) error {
	none := unix.Rlimit{}
	err := limited("core size", unix.Prlimit(pid, unix.RLIMIT_CORE, &none, nil))
	if c.files > 0 {
		err = errors.Join(err, limited("open files", limitFiles(pid, c.files)))
	}
	if c.expendable {
		err = errors.Join(err, limited("OOM score", unspare(pid)))
	}
	return err
}

// limitFiles lowers the limit of open files to most. One that cannot be read is left as
// it is: it may be lower.
func limitFiles(pid int, most uint64) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(now.Cur, most), Max: min(now.Max, most)}, nil)
}

func limited(what string, err error) error {
	if err != nil {
		return fmt.Errorf("limit of %s: %w", what, err)
	}
	return nil
}

// unspare takes back what the host's service manager may have given to it alone.
func unspare(pid int) error {
	const file = "/proc/%d/oom_score_adj"
	now, err := os.ReadFile(fmt.Sprintf(file, pid))
	if err != nil || !bytes.HasPrefix(now, []byte("-")) {
		return err
	}
	return os.WriteFile(fmt.Sprintf(file, pid), []byte("0"), 0)
}

// give makes a directory the plugin's own.
func (c *confinement) give(dir string) error {
	if c.credential == nil {
		return nil
	}
	// Its parents are the host's and let others through, or the plugin could not
	// use it.
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 && c.credential.Uid != uint32(os.Geteuid()) {
			return plugindir.Refusal{Err: fmt.Errorf("user: %s has mode %04o, and the plugin could not reach its socket: want 0711 (chmod o+x)", parent, info.Mode().Perm())}
		}
		if parent == "/" {
			break
		}
	}
	return os.Chown(dir, int(c.credential.Uid), int(c.credential.Gid))
}
