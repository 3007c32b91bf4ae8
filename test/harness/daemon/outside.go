package daemon

import (
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/evictd/evictd/test/harness/child"
)

// An Outsider is a plugin that evictd does not start, in a process that is started again when it has ended, as a
// container is.
type Outsider struct {
	mu   sync.Mutex
	cmd  *exec.Cmd
	over chan struct{}
	done chan struct{}
}

// Outside runs a plugin on a socket until the end of the test, with more variables in its environment.
func Outside(t testing.TB, program, socket string, more ...string) *Outsider {
	t.Helper()
	o := &Outsider{over: make(chan struct{}), done: make(chan struct{})}
	env := append([]string{"EVICTD_PLUGIN_SOCKET=" + socket}, more...)
	o.start(t, program, env)
	go func() {
		defer close(o.done)
		for {
			_ = o.cmd.Wait()
			select {
			case <-o.over:
				return
			case <-time.After(200 * time.Millisecond):
			}
			o.start(t, program, env)
		}
	}()
	t.Cleanup(func() {
		close(o.over)
		for {
			_ = o.kill()
			select {
			case <-o.done:
				return
			case <-time.After(20 * time.Millisecond): // it was being started
			}
		}
	})
	return o
}

func (o *Outsider) start(t testing.TB, program string, env []string) {
	cmd := exec.Command(program)
	cmd.Env = env
	if err := child.Start(cmd); err != nil {
		t.Errorf("start %s: %v", program, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cmd = cmd
}

// Kill ends the process.
func (o *Outsider) Kill(t testing.TB) {
	t.Helper()
	if err := o.kill(); err != nil {
		t.Fatal(err)
	}
}

func (o *Outsider) kill() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.cmd.Process.Kill()
}
