// Package sandbox confines the processes of plugins: their user, capabilities, memory, CPU and
// tasks, and the directory of their socket (docs/decisions/0012). The host and package conformance
// confine plugins with it in the same way. It starts nothing itself: package launch does, with a
// Sandbox as its Confinement. Which file may be executed is up to the host.
package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/dirtree"
	"github.com/evictd/evictd/shared/launch"
)

const (
	// mostSocketFiles is the maximum number of files in the directory of a plugin's socket: the
	// socket and temporary files for making it.
	mostSocketFiles = 16
	// removeTimeout limits the time to remove what an ended plugin left in its directory. The
	// next host removes the rest.
	removeTimeout = 2 * time.Second
	// programFD is the descriptor of the program in its own process. It stays open, since the
	// interpreter of a script opens the script through it.
	programFD = 4
)

// programPath is the path of the program as seen by its own process.
var programPath = fmt.Sprintf("/proc/self/fd/%d", programFD)

// A Program is the open file of a plugin: what was checked is what is executed, even if its
// path changes meanwhile.
type Program struct {
	File *os.File
	// Args are executed instead of the file, with the name first, for example a script's
	// interpreter; nil executes the file itself.
	Args []string
	// CleanUp removes what was made for the program; it may be nil.
	CleanUp func()
}

// Close closes the file and releases its lease, which made writers wait. The kernel itself
// protects a running binary from changes.
func (p *Program) Close() {
	_, _ = unix.FcntlInt(p.File.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	_ = p.File.Close()
}

// Discard removes what was made for the program. Call it after the process has ended.
func (p *Program) Discard() {
	if p.CleanUp != nil {
		p.CleanUp()
	}
}

// A Sandbox confines one process; it is the Confinement for package launch.
type Sandbox struct {
	root    *Root
	name    string
	program Program
	// link is a symbolic link with the plugin's name to programPath.
	link string
	// policy has the capabilities that are left; credential is the user to run as, nil for the caller.
	policy     Policy
	credential *syscall.Credential
	cgroup     cgroup
	// unlimited says why the cgroup lacks some of its limits, nil if it has all.
	unlimited error
	dir       string // of the socket
}

var _ launch.Confinement = (*Sandbox)(nil)

// Command returns the command to start, in this sandbox, the plugin whose file is at path.
func (s *Sandbox) Command(path string) launch.Command {
	c := launch.Command{Path: s.link, Args: []string{path}, Dir: s.dir, Confinement: s}
	if s.program.Args != nil {
		c.Path, c.Args = s.program.Args[0], s.program.Args
	}
	return c
}

// Start implements launch.Confinement.
func (s *Sandbox) Start(cmd *exec.Cmd) error {
	defer s.program.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, s.program.File) // programFD
	if err := s.cgroup.open(); err != nil {
		return err
	}
	s.prepare(cmd)
	if err := s.enter(); err != nil {
		return err
	}
	err := s.cgroup.join()
	s.root.unlimited(s.name, err)
	if !s.root.Strict || err == nil {
		err = cmd.Start()
	}
	s.root.unlimited(s.name, s.cgroup.leave())
	if err != nil {
		return err
	}
	s.root.unlimited(s.name, s.limit(cmd.Process.Pid))
	return nil
}

// OutOfMemory implements launch.Confinement.
func (s *Sandbox) OutOfMemory() bool { return s.cgroup.outOfMemory() }

// Close implements launch.Confinement.
func (s *Sandbox) Close() {
	s.program.Close()
	s.program.Discard()
	s.root.left(s.name, s.cgroup.end())
}

// Status returns the confinement of the process.
func (s *Sandbox) Status() Status {
	status := Status{Policy: s.policy}
	if s.unlimited != nil {
		status.Unlimited = s.unlimited.Error()
	}
	return status
}

// RemoveDir removes the directory of the socket. Call it when the directory is no longer used,
// which may be after Close.
func (s *Sandbox) RemoveDir() {
	if s.dir == "" {
		return
	}
	end := time.Now().Add(removeTimeout)
	s.root.left(s.name, dirtree.Remove(filepath.Dir(s.dir), filepath.Base(s.dir), func() bool { return time.Now().Before(end) }))
}

// CheckDir returns an error if the socket's directory contains more than a plugin needs: files
// cost memory of the node that no limit covers. It allows no subdirectories, in which a plugin
// could make more of them.
func (s *Sandbox) CheckDir() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return fmt.Errorf("directory of its socket: %w", err)
	}
	defer d.Close() //nolint:errcheck // only read
	entries, err := d.ReadDir(mostSocketFiles + 1)
	if err != nil && err != io.EOF { //nolint:errorlint // never wrapped
		return fmt.Errorf("directory of its socket: %w", err)
	}
	if len(entries) > mostSocketFiles {
		return fmt.Errorf("has made more than %d files beside its socket, want the socket alone", mostSocketFiles)
	}
	for _, e := range entries {
		if e.IsDir() {
			return fmt.Errorf("has made the directory %.100q beside its socket, want the socket alone", e.Name())
		}
	}
	return nil
}

// TakeBack makes the directory the caller's again and checks it a last time. The plugin has made
// its socket by then and needs no access to the directory any more. If the plugin has no own
// user, TakeBack only checks.
func (s *Sandbox) TakeBack() error {
	if s.credential != nil && s.credential.Uid != uint32(os.Geteuid()) {
		if err := os.Chown(s.dir, os.Geteuid(), os.Getegid()); err != nil {
			return fmt.Errorf("directory of its socket: %w", err)
		}
		if err := os.Chmod(s.dir, 0o700); err != nil {
			return fmt.Errorf("directory of its socket: %w", err)
		}
	}
	return s.CheckDir()
}

// makeDir makes the directory of the socket, owned by the plugin's user.
func (s *Sandbox) makeDir() (err error) {
	if s.dir, err = s.root.MkdirTemp(""); err != nil || s.credential == nil {
		return err
	}
	// Its parents belong to the caller. They must let others through, or the plugin could not
	// reach the directory.
	for parent := s.root.dir; ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 && s.credential.Uid != uint32(os.Geteuid()) {
			return Impossible{fmt.Errorf("user: %s has mode %04o, and the plugin could not reach its socket: want 0711 (chmod o+x)", parent, info.Mode().Perm())}
		}
		if parent == "/" {
			return os.Chown(s.dir, int(s.credential.Uid), int(s.credential.Gid))
		}
	}
}

// The defaults for custom plugins. A plugin that ranks five thousand pods needs a tenth of the
// memory.
const (
	usualMemoryBytes = 256 << 20
	usualMilliCPU    = 1000
	// usualTasks limits the processes of a fork bomb before it is stopped, usualFiles the open
	// files of a descriptor leak.
	usualTasks = 512
	usualFiles = 4096
)

// A Policy describes the whole confinement of a process; to change it, restart the process. The
// zero Policy sets no limits and leaves no capability.
type Policy struct {
	// User and Group to run it as, names or numbers; "" means the caller's own.
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// Capabilities are those of the caller that it keeps. Asked: they were requested
	// explicitly, and one that the caller lacks is an error.
	Capabilities Capabilities `json:"capabilities"`
	Asked        bool         `json:"-"`
	// MemoryBytes and MilliCPU limit the process and its children together; 0 means no limit.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	MilliCPU    int64 `json:"milliCPU,omitempty"`
	// MemoryAsked: the limit was requested explicitly, and more than the caller's own is an error.
	MemoryAsked bool `json:"-"`
	// Custom processes are also limited in tasks and open files, and lose the OOM protection
	// that the caller may have.
	Custom bool `json:"-"`
}

// Usual returns the default policy for a custom plugin.
func Usual() Policy {
	return Policy{MemoryBytes: usualMemoryBytes, MilliCPU: usualMilliCPU, Custom: true}
}

// limits reports whether the policy needs the given cgroup controller.
func (p Policy) limits(controller string) bool {
	switch controller {
	case "memory":
		return p.MemoryBytes > 0
	case "cpu":
		return p.MilliCPU > 0
	default:
		return p.Custom
	}
}

// Possible returns nil if processes can be confined by p, else an Impossible.
func (p Policy) Possible() error {
	_, err := confine(p)
	return err
}

// Impossible is the error of a policy by which no process can be confined here; another
// attempt fails too.
type Impossible struct{ Err error }

func (i Impossible) Error() string { return i.Err.Error() }

// Unwrap returns the reason.
func (i Impossible) Unwrap() error { return i.Err }

// Status describes the confinement of a process, with the capabilities that it really has.
type Status struct {
	Policy
	// Unlimited says why it runs without some of its limits, "" if it has all.
	Unlimited string `json:"unlimited,omitempty"`
}
