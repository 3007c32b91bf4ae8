package sandbox

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/evictd/evictd/host/internal/dirtree"
	"github.com/evictd/evictd/shared/launch"
)

const (
	// mostSocketFiles is what a plugin may have in the directory of its socket: the
	// socket, and whatever it was made from.
	mostSocketFiles = 16
	// removeTimeout is how long the end of a plugin waits for what it has left in its
	// directory. What is left then is removed by the next host.
	removeTimeout = 2 * time.Second
)

// A Sandbox confines one process. It is what package launch asks of it.
type Sandbox struct {
	confinement

	policy  Policy
	program *program
	// dir is the private directory of the socket, "" if that is somebody else's.
	dir string
	// tell is told what the process is not limited in, if anything, left what could not
	// be removed of it.
	tell, left func(error)
	// strict: without its cgroup it is not started.
	strict bool
}

var _ launch.Confinement = (*Sandbox)(nil)

// Command is how the plugin of the file at path is started here.
func (s *Sandbox) Command(path string) launch.Command {
	return launch.Command{Path: s.program.path, Args: s.program.arguments(path), Dir: s.dir, Confinement: s}
}

// Start implements launch.Confinement.
func (s *Sandbox) Start(cmd *exec.Cmd) error {
	defer s.program.close()
	cmd.Path = s.program.path
	cmd.ExtraFiles = append(cmd.ExtraFiles, s.program.file) // programFD
	if err := s.cgroup.open(); err != nil {
		return err
	}
	s.prepare(cmd)
	if err := s.enter(); err != nil {
		return err
	}
	err := s.cgroup.join()
	s.tell(err)
	if !s.strict || err == nil {
		err = cmd.Start()
	}
	s.tell(s.cgroup.leave())
	if err != nil {
		return err
	}
	s.tell(s.limit(cmd.Process.Pid))
	return nil
}

// OutOfMemory implements launch.Confinement.
func (s *Sandbox) OutOfMemory() bool { return s.cgroup.outOfMemory() }

// Close implements launch.Confinement.
func (s *Sandbox) Close() {
	s.program.close()
	s.program.discard()
	if err := s.cgroup.end(); err != nil {
		s.left(err)
	}
}

// RemoveDir removes the directory of the socket. It is called when nobody looks at it
// any more, which may be after Close.
func (s *Sandbox) RemoveDir() {
	if s.dir == "" {
		return
	}
	end := time.Now().Add(removeTimeout)
	if err := dirtree.Remove(filepath.Dir(s.dir), filepath.Base(s.dir), func() bool { return time.Now().Before(end) }); err != nil {
		s.left(err)
	}
}

// makeDir makes the directory of the socket in root.
func (s *Sandbox) makeDir(root string) (err error) {
	if s.dir, err = makeTemp(root, prefix); err != nil {
		return err
	}
	return s.give(s.dir)
}

// CheckDir refuses a directory of the socket with more in it than a plugin needs
// there: files cost memory of the node that is nobody's limit. With no directory
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
