package supervisor

import (
	"log/slog"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// A spawner has what the starts of a host's plugins share.
type spawner struct {
	groups *groups
	log    *slog.Logger

	mu sync.Mutex
	// told are the reasons, told once, why plugins run with fewer limits than meant.
	told map[string]bool
}

// newSpawner takes key, a directory of this host alone, to tell its cgroups from
// those of others.
func newSpawner(key string, log *slog.Logger) *spawner {
	return &spawner{groups: findGroups(key), log: log, told: map[string]bool{}}
}

// group makes the cgroup of one start. Without one a plugin runs all the same: the
// node is better off with it than without.
func (s *spawner) group(name string, generation uint64, t terms) *group {
	if !t.limited() {
		return nil
	}
	g, err := s.groups.make(name, generation, t)
	s.tell(name, err)
	return g
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
func (s *spawner) close() { s.groups.remove() }

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
