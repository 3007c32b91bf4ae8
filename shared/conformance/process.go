package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/evictd/evictd/shared/launch"
)

const (
	// quotedLines bounds the lines of the log that a report quotes.
	quotedLines = 8
	// endingTime bounds the end of a process whose connection broke.
	endingTime = 400 * time.Millisecond
)

// A process is one start of the plugin.
type process struct {
	*launch.Process

	dir      string // of its socket
	identity *launch.Identity
	written  launch.Log

	mu     sync.Mutex
	stdout []string // after the first line
}

func valid(line []byte) string { return strings.ToValidUTF8(string(line), "\uFFFD") }

func (p *process) print(line []byte, _ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.stdout) < quotedLines {
		p.stdout = append(p.stdout, valid(line))
	}
}

// printed returns what came on standard output after the first line.
func (p *process) printed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.stdout)
}

// log returns the last lines of standard error.
func (p *process) log() string { return lines(p.written.Since(0, quotedLines)) }

// quote returns the last lines of the log as the end of a sentence.
func (p *process) quote() string {
	if log := p.log(); log != "" {
		return "; the end of its log:\n" + log
	}
	return ""
}

// ready waits for the handshake, whose Faults are an error of their own.
func (p *process) ready(ctx context.Context) (launch.Handshake, error) {
	inTime, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	h, err := p.Ready(inTime, nil)
	if err == nil {
		err = checkSocket(h.Socket)
	}
	_, isFaults := errors.AsType[launch.Faults](err)
	switch {
	case err == nil, isFaults, ctx.Err() != nil:
		return h, err
	case errors.Is(err, context.DeadlineExceeded):
		return h, fmt.Errorf("no line on standard output within %s%s", readyTime, p.quote())
	default:
		return h, fmt.Errorf("it %w%s", err, p.quote())
	}
}

// ended reports whether the process has ended.
func (p *process) ended() bool { return p.WaitFor(0) }

// kill ends the process and all of its group, and waits for that.
func (p *process) kill() {
	_ = p.Stop(0) // what cannot be killed is reported as a survivor
}

// checkSocket wants what the plugin said it listens on to be there.
func checkSocket(path string) error {
	stat, err := os.Stat(path)
	if err == nil && stat.Mode().Type() != os.ModeSocket {
		err = fmt.Errorf("%s is not a socket", path)
	}
	if err != nil {
		return launch.Faults{launch.Address: err}
	}
	return nil
}
