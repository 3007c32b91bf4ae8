package main

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxKept is how much of the log is kept while it cannot be written: some
// thousand lines.
const maxKept = 1 << 20

// patient is a writer for a log on the disk that evictd may have to relieve: what a
// full disk refuses is kept and written once there is room. It is not safe for
// concurrent use; a slog.Handler writes one line at a time.
type patient struct {
	to   io.Writer
	kept []byte
	lost int
}

// Write implements io.Writer. A line that is kept counts as written.
func (p *patient) Write(line []byte) (int, error) {
	if len(p.kept) > 0 {
		n, err := p.to.Write(p.kept)
		p.kept = p.kept[n:]
		if err != nil {
			return p.keep(line, err)
		}
		p.kept = nil
		p.tellLost()
	}
	n, err := p.to.Write(line)
	if err == nil {
		return n, nil
	}
	kept, err := p.keep(line[n:], err)
	return n + kept, err
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
