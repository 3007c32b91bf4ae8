package launch

import (
	"fmt"
	"os"
	"time"
)

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

func (p *pipes) closeChildEnds() {
	closeAll(p.stdoutW, p.stderrW, p.parentR)
}

// drainUntil makes reads end at t even if the other ends are still open.
func (p *pipes) drainUntil(t time.Time) {
	_ = p.stdoutR.SetReadDeadline(t)
	_ = p.stderrR.SetReadDeadline(t)
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
