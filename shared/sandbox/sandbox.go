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
	// mostSocketFiles bounds the files in the directory of a plugin's socket: the socket, and
	// whatever it was made from.
	mostSocketFiles = 16
	// removeTimeout bounds the wait at a plugin's end for the removal of what it has left in
	// its directory. The rest is removed by the next host.
	removeTimeout = 2 * time.Second
	// programFD is the descriptor of the program in its process. A script's
	// interpreter opens the script through it, so it stays open.
	programFD = 4
)

// programPath is the program in its process.
var programPath = fmt.Sprintf("/proc/self/fd/%d", programFD)

// A Program is the file of a plugin, open: what was checked of it is true of what
// is executed, whatever happens to its name.
type Program struct {
	File *os.File
	// Args to execute instead, with the name first, such as a script's interpreter; nil for the
	// file itself.
	Args []string
	// CleanUp removes what was made for the program; it may be nil.
	CleanUp func()
}

// Close gives the file back to who wants to write to it, and waits under a lease: the
// kernel keeps a running binary from being changed.
func (p *Program) Close() {
	_, _ = unix.FcntlInt(p.File.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	_ = p.File.Close()
}

// Discard removes what was made for the program, whose process has ended.
func (p *Program) Discard() {
	if p.CleanUp != nil {
		p.CleanUp()
	}
}

// A Sandbox confines one process. It is what package launch asks of it.
type Sandbox struct {
	root    *Root
	name    string
	program Program
	// link is a path with the plugin's name that is the program, in its process.
	link string
	// policy has the capabilities that are left, and credential who it runs as, nil for
	// the caller's user.
	policy     Policy
	credential *syscall.Credential
	cgroup     *cgroup // nil if it has none
	// unlimited says why the cgroup lacks some of its limits, nil if it has all.
	unlimited error
	dir       string // of the socket
}

var _ launch.Confinement = (*Sandbox)(nil)

// Command returns how to start the plugin of the file at path here.
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

// Status returns what the process is confined to.
func (s *Sandbox) Status() Status {
	status := Status{Policy: s.policy}
	if s.unlimited != nil {
		status.Unlimited = s.unlimited.Error()
	}
	return status
}

// RemoveDir removes the directory of the socket. It is called when it is not used
// any more, which may be after Close.
func (s *Sandbox) RemoveDir() {
	if s.dir == "" {
		return
	}
	end := time.Now().Add(removeTimeout)
	s.root.left(s.name, dirtree.Remove(filepath.Dir(s.dir), filepath.Base(s.dir), func() bool { return time.Now().Before(end) }))
}

// CheckDir refuses a directory of the socket with more in it than a plugin needs
// there: files cost memory of the node that no limit bounds. With no directory
// below there is nowhere else to make them.
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

// TakeBack takes the directory from the plugin, which has its socket there by now and
// needs to make nothing more and no way to it, and looks at what there is a last
// time. It is all the same where the plugin has no user of its own.
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

// makeDir makes the directory of the socket, the plugin's own.
func (s *Sandbox) makeDir() (err error) {
	if s.dir, err = s.root.MkdirTemp(""); err != nil || s.credential == nil {
		return err
	}
	// Its parents are the caller's and let others through, or the plugin could not
	// use it.
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
