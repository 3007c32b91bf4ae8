package supervisor

import (
	"os/exec"
	"runtime"
	"sync"
)

// A spawner starts all processes from one thread. Pdeathsig is sent when the
// thread dies that started the child, not the process, so that thread must live
// as long as the host; Go ends threads as it likes unless they are locked.
type spawner struct {
	requests chan func()
	wg       sync.WaitGroup
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	s.wg.Go(func() {
		// Never unlocked: the thread ends with the goroutine, that is after close.
		runtime.LockOSThread()
		for start := range s.requests {
			start()
		}
	})
	return s
}

// start starts cmd and returns when it runs.
func (s *spawner) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	s.requests <- func() { done <- cmd.Start() }
	return <-done
}

// close ends the thread, and with it every process that it started and that
// still runs.
func (s *spawner) close() {
	close(s.requests)
	s.wg.Wait()
}
