package supervisor

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/evictd/evictd/shared/launch"
)

// A spawner has what the starts of a host's plugins share.
type spawner struct {
	// dir is the host's own directory.
	dir    string
	groups *groups
	log    *slog.Logger

	mu sync.Mutex
	// told are the reasons, told once, why plugins run with fewer limits than meant.
	told map[string]bool
}

// newSpawner takes a directory of this host alone, which also tells its cgroups
// from those of others.
func newSpawner(dir string, log *slog.Logger) *spawner {
	return &spawner{dir: dir, groups: findGroups(dir), log: log, told: map[string]bool{}}
}

// namesDir has a link for each plugin to the descriptor of its program.
const namesDir = socketPrefix + "-names"

// link returns a path with the plugin's name that is the program, in its process.
// The kernel takes the process's name from it, and a script its own.
func (s *spawner) link(name string) (string, error) {
	dir := filepath.Join(s.dir, namesDir)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask
		return "", err
	}
	link := filepath.Join(dir, name)
	if err := os.Symlink(programPath, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

// group makes the cgroup of one start. The error is why it is not what it should be,
// and has been told. Without a cgroup a plugin runs all the same: the node is better
// off with it than without.
func (s *spawner) group(name string, generation uint64, t terms) (*group, error) {
	if !t.limited() {
		return nil, nil
	}
	g, err := s.groups.make(name, generation, t)
	s.tell(name, err)
	return g, err
}

// tell logs why the plugin is not limited as it should be, each reason once.
func (s *spawner) tell(name string, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	known := s.told[err.Error()]
	s.told[err.Error()] = true
	s.mu.Unlock()
	if !known {
		s.log.Warn("plugins run without some of their limits", "plugin", name, "error", err)
	}
}

// close removes what is left when all processes have ended.
func (s *spawner) close() {
	s.groups.remove()
	if err := os.RemoveAll(filepath.Join(s.dir, namesDir)); err != nil {
		s.log.Error("something of former plugins is left", "error", err)
	}
}

// A confinedStart confines one process. It is what package launch asks of it.
type confinedStart struct {
	how     confinement
	program *program
	// tell is told what the process is not limited in, if anything, left what could not
	// be removed of it.
	tell, left func(error)
	// strict: without its cgroup it is not started.
	strict bool
}

var _ launch.Confinement = (*confinedStart)(nil)

// Start implements launch.Confinement.
func (c *confinedStart) Start(cmd *exec.Cmd) error {
	defer c.program.close()
	cmd.Path = c.program.path
	cmd.ExtraFiles = append(cmd.ExtraFiles, c.program.file) // programFD
	if err := c.how.group.open(); err != nil {
		return err
	}
	c.how.prepare(cmd)
	if err := c.how.enter(); err != nil {
		return err
	}
	err := c.how.group.join()
	c.tell(err)
	if !c.strict || err == nil {
		err = cmd.Start()
	}
	c.tell(c.how.group.leave())
	if err != nil {
		return err
	}
	c.tell(c.how.limit(cmd.Process.Pid))
	return nil
}

// OutOfMemory implements launch.Confinement.
func (c *confinedStart) OutOfMemory() bool { return c.how.group.outOfMemory() }

// Close implements launch.Confinement.
func (c *confinedStart) Close() {
	c.program.close()
	c.program.discard()
	if err := c.how.group.end(); err != nil {
		c.left(err)
	}
}

// confined is the confinement of a start of the plugin whose log that is.
func (s *spawner) confined(log *lineLog, how confinement, p *program) *confinedStart {
	return &confinedStart{
		how: how, program: p,
		tell: func(err error) { s.tell(log.name, err) },
		left: func(err error) { log.log.Error("something of a plugin is left", "plugin", log.name, "error", err) },
	}
}
