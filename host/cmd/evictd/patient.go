package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxKept is how much of the log is kept while it cannot be written: some
// thousand lines.
const maxKept = 1 << 20

// retryAfter is how long kept lines wait for room if no line comes after them: on
// a quiet node that may take hours.
const retryAfter = 5 * time.Second

// patient is a writer for a log on the disk that evictd may have to relieve: what a
// full disk refuses is kept and written once there is room. It may be used
// concurrently. Close it after the last line.
type patient struct {
	to io.Writer

	mu     sync.Mutex
	kept   []byte
	lost   int
	retry  *time.Timer // nil while nothing is kept
	closed bool
}

// Write implements io.Writer. A line that is kept counts as written.
func (p *patient) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.schedule()
	if err := p.flush(); err != nil {
		return p.keep(line, err)
	}
	n, err := p.to.Write(line)
	if err == nil {
		return n, nil
	}
	kept, err := p.keep(line[n:], err)
	return n + kept, err
}

// Close tries a last time to write what is kept.
func (p *patient) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.retry != nil {
		p.retry.Stop()
		p.retry = nil
	}
	return p.flush()
}

// schedule has kept lines tried again soon.
func (p *patient) schedule() {
	if len(p.kept) > 0 && p.retry == nil && !p.closed {
		p.retry = time.AfterFunc(retryAfter, p.tryAgain)
	}
}

func (p *patient) tryAgain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.retry = nil
	_ = p.flush() // what is left stays kept
	p.schedule()
}

// flush writes what is kept.
func (p *patient) flush() error {
	if len(p.kept) == 0 {
		return nil
	}
	n, err := p.to.Write(p.kept)
	p.kept = p.kept[n:]
	if err != nil {
		return err
	}
	p.kept = nil
	p.tellLost()
	return nil
}

// keep keeps a line, or the rest of one, that err has kept from being written.
func (p *patient) keep(line []byte, err error) (int, error) {
	if !errors.Is(err, unix.ENOSPC) && !errors.Is(err, unix.EDQUOT) {
		return 0, err
	}
	if len(p.kept)+len(line) > maxKept {
		p.lost++
		return len(line), nil
	}
	p.kept = append(p.kept, line...)
	return len(line), nil
}

// tellLost says how many lines are missing. If it cannot be written now it is
// kept as any other.
func (p *patient) tellLost() {
	if p.lost == 0 {
		return
	}
	line := fmt.Appendf(nil, `{"level":"WARN","msg":"lines of the log were lost while its disk was full","lines":%d}`+"\n", p.lost)
	p.lost = 0
	if n, err := p.to.Write(line); err != nil {
		_, _ = p.keep(line[n:], err)
	}
}
