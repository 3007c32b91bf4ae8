package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A Sandbox starts processes as confined as a supervisor starts a custom plugin's,
// for who checks a plugin without a supervisor.
type Sandbox struct {
	terms  terms
	how    confinement
	groups *groups
	dir    string
	tell   func(error)

	starts  atomic.Uint64
	running sync.WaitGroup
}

// programPathFD is the program in a process of a Sandbox, whose file its user may have
// no way to.
const programPathFD = "/proc/self/fd/%d"

// NewSandbox tries whether processes can be confined so, with what is usual for a
// custom plugin where c does not say otherwise. tell is told what a process was not
// limited in nevertheless, from any goroutine: as in a supervisor it runs all the same.
func NewSandbox(c Confinement, tell func(error)) (*Sandbox, error) {
	dir, err := os.MkdirTemp("", "evictd-sandbox-")
	if err != nil {
		return nil, err
	}
	s := &Sandbox{terms: termsOf(map[string]Settings{everybody: {Confinement: c}}, everybody), groups: findGroups(dir), dir: dir, tell: tell}
	if s.how, err = confine(s.terms); err == nil {
		var g *group
		g, err = s.groups.make("sandbox", 0, s.terms)
		err = errors.Join(err, g.end())
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Start starts cmd in the sandbox and makes dir, of its socket, its own. starved
// reports whether the kernel has killed it for its memory, once it has ended.
func (s *Sandbox) Start(cmd *exec.Cmd, dir string) (starved func() bool, err error) {
	how := s.how
	if err := how.give(dir); err != nil {
		return nil, err
	}
	program, err := os.Open(cmd.Path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }()
	cmd.ExtraFiles = append(cmd.ExtraFiles, program)
	cmd.Path = fmt.Sprintf(programPathFD, 2+len(cmd.ExtraFiles))
	if how.group, err = s.groups.make("sandbox", s.starts.Add(1), s.terms); err != nil {
		return nil, errors.Join(err, how.group.end())
	}
	if err := how.group.open(); err != nil {
		return nil, errors.Join(err, how.group.end())
	}
	how.prepare(cmd)
	var killed atomic.Bool
	begun := make(chan error)
	s.running.Add(1)
	onOwnThread(func() {
		defer s.running.Done()
		err := s.launch(cmd, &how)
		begun <- err
		if err == nil {
			// Not reaped here: that is for who has cmd.
			for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
			}
			killed.Store(how.group.outOfMemory())
		}
		if err := how.group.end(); err != nil {
			s.tell(fmt.Errorf("something of a plugin is left: %w", err))
		}
	})
	return killed.Load, <-begun
}

// launch is on a thread that ends with the process.
func (s *Sandbox) launch(cmd *exec.Cmd, how *confinement) error {
	if err := how.enter(); err != nil {
		return err
	}
	joined := how.group.join()
	var err error
	if joined == nil {
		err = cmd.Start()
	}
	if err := errors.Join(joined, err, how.group.leave()); err != nil {
		return err
	}
	if err := how.limit(cmd.Process.Pid); err != nil {
		s.tell(fmt.Errorf("the plugin runs without some of its limits: %w", err))
	}
	return nil
}

// Close waits for the processes, which must have been ended, and removes what was
// made for them.
func (s *Sandbox) Close() {
	s.running.Wait()
	s.groups.remove()
	_ = os.Remove(s.dir) // it only has a name
}
