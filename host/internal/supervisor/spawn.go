package supervisor

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
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

// onOwnThread runs f on a thread that ends with f, in a goroutine that the caller
// waits for. What f changes of the thread, nobody else has; and since Pdeathsig is
// sent when the thread dies that started a process, f must not return before its
// process has ended.
func onOwnThread(f func()) {
	go func() {
		// Never unlocked: the runtime ends a thread whose goroutine ends so.
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		// The runtime would keep the main thread for ever, and its rights are what
		// /proc shows as the host's. As long as it is locked, others get others.
		elsewhere := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(elsewhere)
			f()
		}()
		<-elsewhere
		runtime.UnlockOSThread()
	}()
}
