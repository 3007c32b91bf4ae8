package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/moby/sys/capability"
	"golang.org/x/sys/unix"
)

// confine returns a sandbox for p, with the capabilities that are really left and without
// program, cgroup and directory. Its error is an Impossible.
func confine(p Policy) (*Sandbox, error) {
	who, err := credential(p.User, p.Group)
	if err != nil {
		return nil, Impossible{err}
	}
	_, own, err := heldCapabilities()
	if err != nil {
		return nil, Impossible{err}
	}
	if lacking := p.Capabilities &^ own; p.Asked && lacking != 0 {
		return nil, Impossible{fmt.Errorf("capabilities: evictd does not have %s itself, want a subset of %s", lacking, own)}
	}
	if bound := findCgroups("").memoryBound(); p.MemoryAsked && p.MemoryBytes > bound {
		return nil, Impossible{fmt.Errorf("memoryLimit: %d bytes, and evictd itself with its plugins has %d, want less, or more for evictd (of its pod: resources)", p.MemoryBytes, bound)}
	}
	p.Capabilities &= own
	return &Sandbox{policy: p, credential: who}, nil
}

// prepare sets the attributes of cmd that confine its process.
func (s *Sandbox) prepare(cmd *exec.Cmd) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: s.credential}
	uid := uint32(os.Geteuid())
	if s.credential != nil {
		uid = s.credential.Uid
	}
	if uid != 0 {
		// A program of a user other than root loses all capabilities but these.
		for c := range s.policy.Capabilities.Each() {
			attr.AmbientCaps = append(attr.AmbientCaps, uintptr(c))
		}
	}
	s.cgroup.prepare(attr)
	cmd.SysProcAttr = attr
}

// enter confines the calling thread, which must be locked and end with the process that it
// starts: nothing of this can be undone, and children inherit it.
//
// The thread keeps its effective capabilities: it needs some of them to start a process as
// another user. Besides, a plugin without any capability could trace a thread of the host that
// has none either, and through it the host.
func (s *Sandbox) enter() error {
	// Unshare fails under some seccomp profiles of containers; then the thread shares working
	// directory and umask with the whole process, and they must stay as they are. Plugins can
	// change their umask anyway.
	if unix.Unshare(unix.CLONE_FS) == nil {
		unix.Umask(0o077)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	// Drop root's supplementary groups here. For a plugin with its own user, the credential
	// replaces them.
	if s.credential == nil && os.Geteuid() == 0 {
		// The raw system call: those of the C library and of Go change all threads.
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 && errno != unix.EPERM {
			return fmt.Errorf("drop supplementary groups: %w", errno)
		}
	}
	return dropCapabilities(s.policy.Capabilities)
}

// dropCapabilities leaves only keep to programs run as root: they get the bounding set and,
// under no_new_privs, no more than the thread has.
func dropCapabilities(keep Capabilities) error {
	if err := capability.ResetAmbient(); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	held, permitted, err := heldCapabilities()
	if err != nil {
		return err
	}
	held.Unset(capability.INHERITABLE, slices.Collect((^Capabilities(0)).Each())...)
	if err := held.Apply(capability.CAPS); err != nil {
		return fmt.Errorf("drop inheritable capabilities: %w", err)
	}
	for c := range (^keep).Each() {
		bounded, err := capability.GetBound(c)
		if errors.Is(err, unix.EINVAL) {
			return nil // the kernel knows no further capabilities
		}
		if err != nil {
			return fmt.Errorf("read the bounding set: %w", err)
		}
		if !bounded {
			continue
		}
		// If it cannot be dropped because the thread does not hold it, a child cannot gain it
		// either.
		if err := capability.DropBound(c); err != nil && permitted.Has(c) && os.Geteuid() == 0 {
			return fmt.Errorf("drop %s: %w; evictd needs CAP_SETPCAP for that", Capabilities(1<<c), err)
		}
	}
	return nil
}

// limit sets the limits of a whole process right after its start: set before, they would apply
// to the caller.
func (s *Sandbox) limit(pid int) error {
	err := limited("core size", unix.Prlimit(pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil))
	if !s.policy.Custom {
		return err
	}
	return errors.Join(err, limited("open files", limitFiles(pid)), limited("OOM score", unspare(pid)))
}

// limitFiles lowers the limit of open files. It changes nothing if the limit cannot be read: it
// may be lower already.
func limitFiles(pid int) error {
	var now unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &now); err != nil {
		return err
	}
	return unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(now.Cur, usualFiles), Max: min(now.Max, usualFiles)}, nil)
}

func limited(what string, err error) error {
	if err != nil {
		return fmt.Errorf("limit of %s: %w", what, err)
	}
	return nil
}

// unspare resets a negative OOM score adjustment, which is meant for the host alone.
func unspare(pid int) error {
	file := fmt.Sprintf("/proc/%d/oom_score_adj", pid)
	now, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(now, []byte("-")) {
		return err
	}
	return os.WriteFile(file, []byte("0"), 0)
}
