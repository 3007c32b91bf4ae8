// Package child starts processes that die with this one, however it ends. It does not care about
// their own children.
package child

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// jobs returns the queue of the thread that starts programs.
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

// Start starts a program that gets its Pdeathsig, by default SIGKILL, when this process dies. The
// kernel sends it when the starting thread ends, so that thread must live as long as the process.
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
