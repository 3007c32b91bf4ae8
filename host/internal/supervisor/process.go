package supervisor

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// parentFD is the descriptor of the pipe whose end of file tells a plugin that
	// its host is gone. The SDK finds its number in the environment.
	parentFD    = 3
	parentFDEnv = "EVICTD_PARENT_FD=3"
	// drainTime is how long output is read after a process has ended: somebody
	// who left its process group may hold the other end open.
	drainTime = 200 * time.Millisecond
	// farewell is how long a process that has closed its side may take to end, for
	// its exit status to be told: more than it needs on a busy node.
	farewell = 2 * time.Second
	// killTime is how long SIGKILL may take before the process is given up: one
	// in uninterruptible sleep must not hold up the host's end.
	killTime = 5 * time.Second
)

var errStopped = errors.New("stopped before it was ready")

// A process is one start of a plugin, with all that it inherits and leaves
// behind. It has a process group of its own.
type process struct {
	spawn   *spawner
	log     *lineLog
	program *program
	how     confinement
	// exited is closed when the process is reaped, its group killed and its output
	// read; abandoned when it survived SIGKILL.
	exited    chan struct{}
	abandoned chan struct{}
	// first receives the first line of stdout, and is closed at its end.
	first chan string
	// over is closed when the process has ended, before its output is read to the
	// end.
	over chan struct{}
	wg   sync.WaitGroup
	tidy sync.Once

	mu      sync.Mutex
	pid     int
	started bool
	stopped bool // before it could start
	reaped  bool
	ended   *os.ProcessState
	// starved: the kernel killed it or a child for their memory.
	starved bool
	// flood is what it sent too much of, and was killed for.
	flood error
}

func newProcess(spawn *spawner, log *lineLog, program *program, how confinement) *process {
	return &process{
		spawn: spawn, log: log, program: program, how: how,
		exited: make(chan struct{}), abandoned: make(chan struct{}), over: make(chan struct{}), first: make(chan string, 1),
	}
}

// start starts cmd, of which path, arguments and environment are given.
func (p *process) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return errStopped
	}
	pipes, err := openPipes()
	if err != nil {
		return err
	}
	cmd.Stdin = nil
	cmd.Stdout, cmd.Stderr = pipes.stdoutW, pipes.stderrW
	cmd.ExtraFiles = []*os.File{parentFD - 3: pipes.parentR, programFD - 3: p.program.file}
	cmd.Env = append(cmd.Env, parentFDEnv)
	cmd.Dir = "/"
	err = p.how.group.open()
	if err == nil {
		p.how.prepare(cmd)
		begun := make(chan error)
		onOwnThread(func() {
			err := p.launch(cmd)
			begun <- err
			if err == nil {
				p.reap(cmd, pipes)
			}
		})
		err = <-begun
	}
	if err != nil {
		pipes.close()
		return err
	}
	pipes.closeChildEnds()
	p.pid, p.started = cmd.Process.Pid, true
	p.wg.Go(func() { p.readStdout(pipes.stdoutR) })
	p.wg.Go(func() { p.log.follow(pipes.stderrR, p.over) })
	return nil
}

// launch starts cmd on the calling thread, which is locked, and confines it.
func (p *process) launch(cmd *exec.Cmd) error {
	if err := p.how.enter(); err != nil {
		return err
	}
	p.spawn.tell(p.log.name, p.how.group.join())
	err := cmd.Start()
	p.spawn.tell(p.log.name, p.how.group.leave())
	p.program.started()
	if err != nil {
		return err
	}
	p.spawn.tell(p.log.name, p.how.limit(cmd.Process.Pid))
	return nil
}

// readStdout passes the first line on and logs what comes after it: stdout
// belongs to the handshake.
func (p *process) readStdout(r io.Reader) {
	waiting := true
	lines := splitter{max: maxLineBytes, emit: func(line []byte, cut bool) {
		if waiting {
			waiting = false
			p.first <- string(line)
			return
		}
		p.log.text(line, cut)
	}}
	_, _ = io.Copy(&lines, newPacer(r, p.over))
	lines.flush()
	close(p.first)
}

// printed returns a writer of what the plugin's code prints after the handshake,
// which comes with its calls. It is for one goroutine.
func (p *process) printed() io.Writer { return &pacer{w: p.log.lines(), over: p.over} }

// reap waits for the end of the process and cleans up after it, on the thread that
// started it. It is waited for through exited.
func (p *process) reap(cmd *exec.Cmd, pipes *pipes) {
	// Look without reaping first: as long as the leader is a zombie its number
	// cannot be given to another process group.
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	starved := p.how.group.outOfMemory()
	p.mu.Lock()
	_ = unix.Kill(-p.pid, unix.SIGKILL)
	p.reaped, p.starved = true, starved
	// The exit status is in ProcessState; an error here says the same.
	_ = cmd.Wait()
	p.ended = cmd.ProcessState
	p.mu.Unlock()

	close(p.over)
	p.cleanUp()
	pipes.drainUntil(time.Now().Add(drainTime))
	p.wg.Wait()
	pipes.close()
	close(p.exited)
}

// cleanUp kills whoever has left the process group and removes what was made for
// the process.
func (p *process) cleanUp() {
	p.tidy.Do(func() {
		p.program.discard()
		if err := p.how.group.end(); err != nil {
			p.log.log.Error("something of a plugin is left", "plugin", p.log.name, "error", err)
		}
	})
}

// signal sends sig to the process group, if the process has not been reaped.
func (p *process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.started && !p.reaped {
		_ = unix.Kill(-p.pid, sig)
	}
}

// floods kills a process that sends more than it may: another connection to it
// would bring more of the same.
func (p *process) floods(what error) {
	p.mu.Lock()
	p.flood = what
	p.mu.Unlock()
	p.signal(unix.SIGKILL)
}

// stop ends the process: SIGTERM and SIGKILL after grace, or SIGKILL at once if
// grace is zero. It returns when nothing of it is left, or with an error when
// it cannot be killed.
func (p *process) stop(grace time.Duration) error {
	p.mu.Lock()
	p.stopped = true
	running := p.started
	p.mu.Unlock()
	if !running {
		p.cleanUp()
		return nil
	}
	if grace > 0 {
		p.signal(unix.SIGTERM)
		if p.waitFor(grace) {
			return nil
		}
	}
	p.signal(unix.SIGKILL)
	if p.waitFor(killTime) {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.abandoned:
	default:
		close(p.abandoned)
	}
	return fmt.Errorf("process %d does not die from SIGKILL within %s", p.pid, killTime)
}

// waitFor reports whether the process has exited, waiting for at most d.
func (p *process) waitFor(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// ending tells how the process ended, "" while it runs.
func (p *process) ending() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		return ""
	}
	if p.flood != nil {
		return fmt.Sprintf("%s, it had sent %v", p.ended, p.flood)
	}
	if p.starved {
		return p.ended.String() + ", it had reached its memory limit"
	}
	return p.ended.String()
}

func (p *process) id() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}
