package conformance

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-plugin"
	"golang.org/x/sys/unix"

	"github.com/evictd/evictd/shared/wire"
)

const (
	// drainTime is how long output is read after the end of a process: somebody may
	// hold the other end open.
	drainTime = 200 * time.Millisecond
	// keptLines is how much of the log a report may quote.
	keptLines = 8
	// maxLine is more than a handshake with a certificate.
	maxLine = 64 << 10
)

// A start is how to start a process.
type start struct {
	path string
	dir  string // of sockets
	// cookie is left out to start it as a person would.
	cookie bool
	// identity is the host's, nil without TLS.
	identity    *identity
	environment []string
	sandbox     Sandbox // nil for none
}

// A process is one start of the plugin, with all that it inherits, in a process
// group of its own.
type process struct {
	cmd    *exec.Cmd
	parent *os.File // our end of the pipe whose end of file is our death
	// first gets the first line of standard output and is closed at its end.
	first  chan string
	exited chan struct{}
	dir    string // of its socket
	// starved tells whether it had no memory left, nil if nothing limits it.
	starved func() bool

	mu       sync.Mutex
	stdout   []string // after the first line
	stderr   []string // the last lines, or the first ones of a panic
	panicked bool
}

// run starts a process as the host does.
func (s *start) run() (*process, error) {
	p := &process{dir: s.dir, cmd: exec.Command(s.path), first: make(chan string, 1), exited: make(chan struct{})} //nolint:noctx // ended by kill
	var child, own []*os.File
	defer func() { closeAll(child) }()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(own)
			return nil, fmt.Errorf("open pipe: %w", err)
		}
		child, own = append(child, w), append(own, r)
	}
	// Of the third pipe the plugin gets the end to read from.
	child[2], own[2] = own[2], child[2]
	p.parent = own[2]
	p.cmd.Dir = "/"
	p.cmd.Env = s.variables()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.ExtraFiles = child[0], child[1], child[2:]
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.begin(p); err != nil {
		closeAll(own)
		return nil, fmt.Errorf("start: %w", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.readStdout(own[0]) })
	reading.Go(func() { p.readStderr(own[1]) })
	go func() { // ends with the process, which kill waits for
		defer close(p.exited)
		p.reap()
		for _, r := range own[:2] {
			_ = r.SetReadDeadline(time.Now().Add(drainTime))
		}
		reading.Wait()
		closeAll(own[:2])
	}()
	return p, nil
}

// begin starts the process, confined or not.
func (s *start) begin(p *process) (err error) {
	if s.sandbox == nil {
		return p.cmd.Start()
	}
	p.starved, err = s.sandbox.Start(p.cmd, s.dir)
	return err
}

func (s *start) variables() []string {
	env := slices.Clone(s.environment)
	if !s.cookie {
		return append(env, "PATH="+os.Getenv("PATH"))
	}
	env = append(env,
		wire.Handshake.MagicCookieKey+"="+wire.Handshake.MagicCookieValue,
		fmt.Sprintf("PLUGIN_PROTOCOL_VERSIONS=%d", wire.ProtocolMajor),
		plugin.EnvUnixSocketDir+"="+s.dir,
		"EVICTD_PARENT_FD=3",
	)
	if s.identity != nil {
		env = append(env, "PLUGIN_CLIENT_CERT="+s.identity.pem)
	}
	return env
}

// reap waits for the process and kills what is left of its group while its
// number cannot be given to another one.
func (p *process) reap() {
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	_ = p.cmd.Wait() // how it ended is in ProcessState
}

func (p *process) readStdout(r io.Reader) {
	defer close(p.first)
	waiting := true
	eachLine(r, func(line string) {
		if waiting {
			waiting = false
			p.first <- line
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.stdout) < keptLines {
			p.stdout = append(p.stdout, line)
		}
	})
}

func (p *process) readStderr(r io.Reader) { eachLine(r, p.logged) }

// logged takes a line of the log.
func (p *process) logged(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// What comes after a panic's own words are only the stacks.
	if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
		p.stderr, p.panicked = nil, true
	}
	if len(p.stderr) == keptLines {
		if p.panicked {
			return
		}
		p.stderr = p.stderr[1:]
	}
	p.stderr = append(p.stderr, line)
}

// diverted takes what go-plugin has kept from the standard streams and sent
// instead.
func (p *process) diverted(raw []byte) {
	got, _ := fields(raw) // what is cut off is not worth a word
	for _, f := range got {
		if f.num == 2 {
			eachLine(bytes.NewReader(f.bytes), p.logged)
		}
	}
}

// eachLine reads to the end, whatever comes: a writer must not be held up.
func eachLine(r io.Reader, take func(string)) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, _, err := b.ReadLine()
		if err != nil {
			return
		}
		take(strings.ToValidUTF8(string(line), "\uFFFD"))
	}
}

// signal sends sig to the process, if it is still there.
func (p *process) signal(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd.ProcessState == nil {
		_ = unix.Kill(p.cmd.Process.Pid, sig)
	}
}

// kill ends the process and all of its group, and waits for that.
func (p *process) kill() {
	p.mu.Lock()
	if p.cmd.ProcessState == nil {
		_ = unix.Kill(-p.cmd.Process.Pid, unix.SIGKILL)
	}
	p.mu.Unlock()
	p.ended(5 * time.Second)
	_ = p.parent.Close()
}

// ended reports whether the process has ended, waiting for at most d.
func (p *process) ended(d time.Duration) bool {
	select {
	case <-p.exited:
		return true
	default:
	}
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
	if p.cmd.ProcessState == nil {
		return ""
	}
	if p.starved != nil && p.starved() {
		return p.cmd.ProcessState.String() + ", it had reached its memory limit"
	}
	return p.cmd.ProcessState.String()
}

// log returns the last lines of standard error.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.stderr, "\n")
}

// printed returns what came on standard output after the first line.
func (p *process) printed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stdout)
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
