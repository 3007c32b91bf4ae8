package supervisor

import (
	"io"
	"time"
)

// pacerBytes is how much of a plugin's output is read in a second. More costs the
// host time, and the plugin has to wait until it is read. A plugin that tells
// everything it does does not come near.
const pacerBytes = 4 << 20

// A pacer lets through so much a second, until over is closed.
type pacer struct {
	over   <-chan struct{}
	r      io.Reader
	w      io.Writer
	second time.Time
	left   int
}

// newPacer returns a reader of r, which is for one goroutine.
func newPacer(r io.Reader, over <-chan struct{}) *pacer { return &pacer{r: r, over: over} }

// Read reads when the present second has room.
func (p *pacer) Read(b []byte) (int, error) {
	p.wait()
	n, err := p.r.Read(b)
	p.left -= n
	return n, err
}

// Write writes when the present second has room.
func (p *pacer) Write(b []byte) (int, error) {
	p.wait()
	p.left -= len(b)
	return p.w.Write(b)
}

func (p *pacer) wait() {
	now := time.Now()
	if now.Sub(p.second) >= time.Second {
		p.second, p.left = now, pacerBytes
	}
	if p.left > 0 {
		return
	}
	timer := time.NewTimer(time.Second - now.Sub(p.second))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.over:
	}
}
