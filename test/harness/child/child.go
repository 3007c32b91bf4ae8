// Package child starts processes that do not outlive this one, however it ends. What they
// start themselves is not its business.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// jobs are for the thread that starts programs.
var jobs = sync.OnceValue(func() chan<- func() {
	jobs := make(chan func())
	go func() { // lives as long as this process
		runtime.LockOSThread()
		for job := range jobs {
			job()
		}
	}()
	return jobs
})

// Start starts a program that gets its Pdeathsig, SIGKILL if it has none, when this process
// dies. To the kernel the parent is the thread that started it, so that one has to live as long.
func Start(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if cmd.SysProcAttr.Pdeathsig == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	done := make(chan error)
	jobs() <- func() { done <- cmd.Start() }
	return <-done
}
