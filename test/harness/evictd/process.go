package evictd

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/evictd/evictd/test/harness/child"
)

const (
	readyDeadline = 20 * time.Second
	stopDeadline  = 20 * time.Second
	killDeadline  = 5 * time.Second
)

// Options select the evictd to run and its configuration.
type Options struct {
	// Binary is the evictd binary, ConfigFile the file that Configure has written.
	Binary, ConfigFile string
	// OnRecord, if set, is called for each log record, in order, from one goroutine.
	OnRecord func(Record)
	// Command prepares the program; nil means exec.Command.
	Command func(name string, args ...string) *exec.Cmd
}

// A Process is a running evictd. The caller of Start must end it, with Stop or Kill.
type Process struct {
	// StartedAt is just before the start, CLOCK_MONOTONIC in nanoseconds.
	StartedAt int64
	// RunDir is its run directory.
	RunDir string

	cmd    *exec.Cmd
	log    *log
	exited chan struct{}
	err    error // of the command's Wait; read after exited is closed
}

// Start starts evictd and begins to read its log. It does not wait until evictd is ready.
func Start(o Options) (*Process, error) {
	if o.Command == nil {
		o.Command = exec.Command
	}
	text, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	var config struct {
		RunDir string `json:"runDir"`
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("start evictd: %s: %w", o.ConfigFile, err)
	}
	p := &Process{RunDir: config.RunDir, cmd: o.Command(o.Binary, "run", "--config", o.ConfigFile), log: newLog(o.OnRecord), exited: make(chan struct{})}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	p.StartedAt = monotonic()
	if err := child.Start(p.cmd); err != nil {
		return nil, fmt.Errorf("start evictd: %w", err)
	}
	go func() { // ends with evictd, which Stop and Kill wait for
		defer close(p.exited)
		p.log.read(stderr)
		p.err = p.cmd.Wait()
		p.log.close(fmt.Errorf("evictd ended (%v)", p.cmd.ProcessState))
	}()
	return p, nil
}

// PID returns evictd's process ID.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Await returns the first record that match accepts, among those already read and those to come.
func (p *Process) Await(ctx context.Context, match func(Record) bool) (Record, error) {
	return p.log.await(ctx, match)
}

// Ready waits until evictd logs that it is ready, for at most 20 s.
func (p *Process) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyDeadline)
	defer cancel()
	if _, err := p.Await(ctx, func(r Record) bool { return r.Msg == readyMessage }); err != nil {
		return fmt.Errorf("evictd did not become ready: %w\n%s", err, p.LogTail())
	}
	return nil
}

// Records returns the records so far with the given message.
func (p *Process) Records(msg string) []Record { return p.log.withMessage(msg) }

// LogTail returns the last lines of the log, as they were written.
func (p *Process) LogTail() string { return p.log.text(tailLines) }

// LogText returns all of the log so far, as it was written.
func (p *Process) LogText() string { return p.log.text(math.MaxInt) }

// Signal sends a signal to evictd.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// Exit waits for evictd to end and returns its exit status, -1 for a signal.
func (p *Process) Exit(ctx context.Context) (int, error) {
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode(), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("evictd has not ended: %w", ctx.Err())
	}
}

// Stop sends SIGTERM and waits for evictd to end, which must happen in time and with exit status
// 0. In any case evictd is gone afterwards.
func (p *Process) Stop() error {
	_ = p.Signal(syscall.SIGTERM) // an error is an end, seen below
	timer := time.NewTimer(stopDeadline)
	defer timer.Stop()
	var err error
	select {
	case <-p.exited:
		err = p.err
	case <-timer.C:
		p.Kill()
		err = fmt.Errorf("still running %v after SIGTERM", stopDeadline)
	}
	if err != nil {
		return fmt.Errorf("evictd: %w\n%s", err, p.LogTail())
	}
	return nil
}

// Kill ends evictd at once.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // an error is an end
	timer := time.NewTimer(killDeadline)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C: // something evictd started still holds the log open
	}
}
