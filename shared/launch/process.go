// Package launch starts a plugin's process and connects to it: pipes, environment, handshake, TLS,
// output lines, and its end together with all that it has started. The host and package conformance
// both start plugins with it, so that the tested path is the one that runs.
//
// The handshake is go-plugin's, core protocol 1, which also serves the plugins. The package knows
// nothing of a plugin's calls, restarts or user: the last is up to the caller's Confinement.
package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// drainTime limits the reading of output after a process has ended: a process that left its
	// group may hold the other end open.
	drainTime = 200 * time.Millisecond
	// Farewell limits the wait for a process that has closed its side, so that its exit status
	// can be reported. It is more than the end takes on a busy node.
	Farewell = 2 * time.Second
	// killTime limits the wait after SIGKILL, after which the process is given up: one in
	// uninterruptible sleep must not delay the host's end.
	killTime = 5 * time.Second
)

// A Process is one start of a plugin, with all that it inherits and leaves behind. It runs in its
// own process group.
type Process struct {
	command     Command
	cmd         *exec.Cmd
	confinement Confinement
	pipes       *pipes
	// first receives the first line of stdout, and is closed at its end.
	first chan string
	// over is closed when the process has ended, before its output is read to the end; exited
	// when nothing of it is left.
	over, exited chan struct{}
	reading      sync.WaitGroup

	mu    sync.Mutex
	state *os.ProcessState // nil until it is reaped
	// starved: the kernel killed it or a child because of their memory.
	starved bool
	// flood names what it sent too much of and was killed for, nil if it did not.
	flood error
}

// Start starts a process. On an error it leaves nothing behind.
func Start(c Command) (*Process, error) {
	p := &Process{
		command: c, confinement: c.Confinement,
		first: make(chan string, 1), over: make(chan struct{}), exited: make(chan struct{}),
	}
	if p.confinement == nil {
		p.confinement = unconfined{}
	}
	begun := make(chan error)
	onOwnThread(func() {
		err := p.begin()
		if err != nil {
			p.confinement.Close()
		}
		begun <- err
		if err == nil {
			p.reap()
		}
	})
	if err := <-begun; err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Process) begin() (err error) {
	if p.pipes, err = openPipes(); err != nil {
		return err
	}
	p.cmd = &exec.Cmd{
		Path: p.command.Path, Args: p.command.Args, Env: p.command.environment(), Dir: "/",
		Stdout: p.pipes.stdoutW, Stderr: p.pipes.stderrW, ExtraFiles: []*os.File{parentFD - 3: p.pipes.parentR},
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	if err := p.confinement.Start(p.cmd); err != nil {
		p.pipes.close()
		return notStarted(err)
	}
	closeAll(p.pipes.stdoutW, p.pipes.stderrW, p.pipes.parentR)
	p.reading.Go(p.readStdout)
	p.reading.Go(func() { follow(p.pipes.stderrR, p.over, p.command.Stderr) })
	return nil
}

// readStdout sends the first line, the handshake, to first, and the others to the command's Stdout.
func (p *Process) readStdout() {
	waiting := true
	follow(p.pipes.stdoutR, p.over, func(line []byte, cut bool) {
		if waiting {
			waiting = false
			p.first <- string(line)
			return
		}
		p.command.Stdout(line, cut)
	})
	close(p.first)
}

// reap waits for the end of the process and cleans up after it, on the thread that started it.
// To wait for reap itself, use exited.
func (p *Process) reap() {
	// Look without reaping first: as long as the leader is a zombie its number
	// cannot be given to another process group.
	for {
		err := unix.Waitid(unix.P_PID, p.PID(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	starved := p.confinement.OutOfMemory()
	p.mu.Lock()
	_ = unix.Kill(-p.PID(), unix.SIGKILL)
	// The exit status is in ProcessState; an error here says the same.
	_ = p.cmd.Wait()
	p.state, p.starved = p.cmd.ProcessState, starved
	p.mu.Unlock()

	close(p.over)
	p.confinement.Close()
	for _, f := range []*os.File{p.pipes.stdoutR, p.pipes.stderrR} { // their other ends may still be open
		_ = f.SetReadDeadline(time.Now().Add(drainTime))
	}
	p.reading.Wait()
	p.pipes.close()
	close(p.exited)
}

// PID returns the process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process is reaped, its group killed and its output read.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Signal sends sig to the process group, if the process has not been reaped.
func (p *Process) Signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == nil {
		_ = unix.Kill(-p.PID(), sig)
	}
}

// Flood kills a process that sends more than it may; over another connection it would only
// send more.
func (p *Process) Flood(what error) {
	p.mu.Lock()
	p.flood = what
	p.mu.Unlock()
	p.Signal(unix.SIGKILL)
}

// Orphan makes the process see the end of its host.
func (p *Process) Orphan() { _ = p.pipes.parentW.Close() }

// Stop ends the process: SIGTERM and SIGKILL after grace, or SIGKILL at once if
// grace is zero. It returns when nothing of it is left, or with an error when
// it cannot be killed.
func (p *Process) Stop(grace time.Duration) error {
	if grace > 0 {
		p.Signal(unix.SIGTERM)
		if p.WaitFor(grace) {
			return nil
		}
	}
	p.Signal(unix.SIGKILL)
	if !p.WaitFor(killTime) {
		return fmt.Errorf("process %d does not die from SIGKILL within %s", p.PID(), killTime)
	}
	return nil
}

// WaitFor reports whether the process has exited, waiting for at most d.
func (p *Process) WaitFor(d time.Duration) bool { return waitFor(p.exited, d) }

// waitFor reports whether end is closed, waiting for at most d.
func waitFor(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return true
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-end:
		return true
	case <-timer.C:
		return false
	}
}

// Ending says how the process ended, "" while it runs.
func (p *Process) Ending() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.state == nil:
		return ""
	case p.flood != nil:
		return fmt.Sprintf("%s, it had sent %v", p.state, p.flood)
	case p.starved:
		return p.state.String() + ", it had reached its memory limit"
	}
	return p.state.String()
}

// FirstLine returns the first line on standard output of a process that has exited without
// Ready reading it, "" if there was none.
func (p *Process) FirstLine() string { return <-p.first }

// Succeeded reports whether the process has ended with status 0.
func (p *Process) Succeeded() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state != nil && p.state.Success()
}

// pipes connect the host to one process. The host never writes to parentW, but keeps it open:
// its closing tells the plugin that the host is gone.
type pipes struct {
	stdoutR, stdoutW *os.File
	stderrR, stderrW *os.File
	parentR, parentW *os.File
}

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, ends := range [][2]**os.File{{&p.stdoutR, &p.stdoutW}, {&p.stderrR, &p.stderrW}, {&p.parentR, &p.parentW}} {
		r, w, err := os.Pipe()
		if err != nil {
			p.close()
			return nil, fmt.Errorf("open pipe: %w", err)
		}
		*ends[0], *ends[1] = r, w
	}
	return p, nil
}

// close closes all pipes. Closing twice is harmless.
func (p *pipes) close() {
	closeAll(p.stdoutR, p.stdoutW, p.stderrR, p.stderrW, p.parentR, p.parentW)
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
